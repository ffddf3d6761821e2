//! Frames of friends and of strangers.

mod compressed;
mod hostile;
mod legacy;
mod msg;
