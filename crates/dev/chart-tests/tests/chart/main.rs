//! Consistency of the chart's files. Does not need Helm.

mod dashboard;
mod pages;
mod rules;
mod versions;
