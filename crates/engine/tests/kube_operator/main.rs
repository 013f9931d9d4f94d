//! The operator on a real API server with real controllers. Nodes are objects without machines; a task answers for their kilnd.

mod crash;
mod drains;
mod ends;
mod faults;
mod good;
mod leaders;
mod pools;
mod recording;
mod stops;
mod world;

use fleet_bench::kilnd;
