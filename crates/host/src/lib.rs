//! The machine that kilnd runs on: files and generations, PID 1, settings of the kernel, clock. Synchronous.
