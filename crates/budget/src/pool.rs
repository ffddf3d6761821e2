//! The pools: a row each.

/// What memory is charged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// What the engine remembers of written keys while older states are open.
    Conflicts,
    /// Buffers and stacks of connections.
    Connections,
    /// What cursors between two requests hold.
    Cursors,
    /// Sorts, groups and what else holds documents in a running query.
    Execution,
    /// Keys collected by index builds.
    IndexBuilds,
    /// Cached choices of plans.
    Plans,
    /// Messages larger than a connection's own buffer, and their replies.
    Requests,
    /// What scripts hold.
    Scripts,
    /// Writes that are staged and not committed.
    Transactions,
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// At most this many hundredths of the budget.
    pub(crate) percent: u64,
}

impl Pool {
    /// All, in the order of their names.
    pub const ALL: [Pool; 9] = [
        Pool::Conflicts,
        Pool::Connections,
        Pool::Cursors,
        Pool::Execution,
        Pool::IndexBuilds,
        Pool::Plans,
        Pool::Requests,
        Pool::Scripts,
        Pool::Transactions,
    ];

    /// As `serverStatus` calls it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub(crate) fn row(self) -> Row {
        let (name, percent) = match self {
            Pool::Conflicts => ("conflicts", 8),
            Pool::Connections => ("connections", 25),
            Pool::Cursors => ("cursors", 20),
            Pool::Execution => ("execution", 40),
            Pool::IndexBuilds => ("indexBuilds", 20),
            Pool::Plans => ("plans", 5),
            Pool::Requests => ("requests", 30),
            Pool::Scripts => ("scripts", 25),
            Pool::Transactions => ("transactions", 20),
        };
        Row { name, percent }
    }
}
