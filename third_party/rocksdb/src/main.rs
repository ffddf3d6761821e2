//! Nothing: this package exists for the sources that its dependency carries.
fn main() {}
