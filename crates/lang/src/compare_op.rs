//! The comparisons that filters and expressions share.

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    Eq,
    Lt,
    Lte,
    Gt,
    Gte,
}

impl CompareOp {
    /// The operator's name in a filter.
    pub const fn name(self) -> &'static str {
        match self {
            CompareOp::Eq => "$eq",
            CompareOp::Lt => "$lt",
            CompareOp::Lte => "$lte",
            CompareOp::Gt => "$gt",
            CompareOp::Gte => "$gte",
        }
    }

    /// Whether an order of value to operand satisfies the operator.
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
