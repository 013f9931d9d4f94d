//! Detection and Karpenter's objects, on a real API server.

mod facts;
mod objects;
mod plane;
