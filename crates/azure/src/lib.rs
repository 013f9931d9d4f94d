//! Azure: credentials, ARM client, Factory and Machines.
