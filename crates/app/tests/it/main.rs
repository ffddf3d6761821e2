//! The program as users run it: exit codes, one process a folder, the end in order, a full disk.

mod full_disk;
mod life;
mod process;
