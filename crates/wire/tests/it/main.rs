//! Valid and hostile frames.

mod compressed;
mod hostile;
mod legacy;
mod msg;
