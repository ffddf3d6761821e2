//! Extended JSON v2, both ways, and a relaxed reader of the shell's notation for tests.
