//! The whole prototype operation on machines of this machine, against an API server in the same process, in virtual time. The machines are
//! switched on and off in memory; their disks are real folders, and what a machine writes is on them.

mod runs;
mod setup;
