//! The pools: a row each.

/// What memory is charged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// What the engine remembers of written keys while older states are open.
    Conflicts,
    /// Buffers and stacks of connections.
    Connections,
    /// What sorts and groups of cursors hold between two requests.
    Cursors,
    /// What expressions and operators of a request build, beyond its first megabyte and beside what other
    /// pools hold.
    Evaluation,
    /// Sorts, groups and what else holds documents in a running query.
    Execution,
    /// Keys collected by index builds.
    IndexBuilds,
    /// Cursors between two requests, but for what their sorts and groups hold.
    OpenCursors,
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
    /// Whether it is memory of this program's own allocator, taken and given back by the thread that charges
    /// it: then the thread's meter does not count it again. Not so: stacks and what the engine keeps.
    pub(crate) covers: bool,
}

impl Pool {
    /// All, in the order of their names.
    pub const ALL: [Pool; 11] = [
        Pool::Conflicts,
        Pool::Connections,
        Pool::Cursors,
        Pool::Evaluation,
        Pool::Execution,
        Pool::IndexBuilds,
        Pool::OpenCursors,
        Pool::Plans,
        Pool::Requests,
        Pool::Scripts,
        Pool::Transactions,
    ];

    /// As `serverStatus` calls it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub(crate) fn covers(self) -> bool {
        self.row().covers
    }

    pub(crate) fn row(self) -> Row {
        let (name, percent, covers) = match self {
            Pool::Conflicts => ("conflicts", 8, false),
            Pool::Connections => ("connections", 25, false),
            Pool::Cursors => ("cursors", 20, true),
            Pool::Evaluation => ("evaluation", 30, true),
            Pool::Execution => ("execution", 40, true),
            Pool::IndexBuilds => ("indexBuilds", 20, true),
            Pool::OpenCursors => ("openCursors", 20, true),
            Pool::Plans => ("plans", 5, true),
            Pool::Requests => ("requests", 30, true),
            Pool::Scripts => ("scripts", 25, true),
            Pool::Transactions => ("transactions", 20, false),
        };
        Row { name, percent, covers }
    }
}
