//! Compares with recordings of AKS and Karpenter. The crate's unit tests cover the same behaviour without recordings.

mod recordings;
