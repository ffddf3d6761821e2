//! Nothing: this package exists for the archive that its dependency builds.
fn main() {}
