//! Conversions and exact comparisons between the four kinds of number.
