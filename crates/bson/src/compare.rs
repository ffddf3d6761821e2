//! MongoDB's order of values, across types and without loss between numbers.
