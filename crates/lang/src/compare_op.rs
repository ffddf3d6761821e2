//! The comparison operators that filters and expressions share.

/// A comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    Eq,
    Lt,
    Lte,
    Gt,
    Gte,
}

impl CompareOp {
    /// The name of the operator in a filter.
    pub const fn name(self) -> &'static str {
        match self {
            CompareOp::Eq => "$eq",
            CompareOp::Lt => "$lt",
            CompareOp::Lte => "$lte",
            CompareOp::Gt => "$gt",
            CompareOp::Gte => "$gte",
        }
    }

    /// Returns true if the operator holds for this ordering of the value to the operand.
    pub const fn accepts(self, order: std::cmp::Ordering) -> bool {
        match self {
            CompareOp::Eq => order.is_eq(),
            CompareOp::Lt => order.is_lt(),
            CompareOp::Lte => order.is_le(),
            CompareOp::Gt => order.is_gt(),
            CompareOp::Gte => order.is_ge(),
        }
    }
}
