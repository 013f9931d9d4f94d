//! The chart's files against each other and against what they are made from. Needs no Helm.

mod pages;
mod rules;
mod versions;
