//! Recorded inputs and outputs of AKS and Karpenter. The other tests of this crate have the most important of them, too.

mod recordings;
