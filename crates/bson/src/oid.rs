//! New ObjectIds: seconds, five random bytes of the process, a counter.
