//! The table of pools.

/// A purpose for which memory is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Messages of the audit log that are not written yet.
    Audit,
    /// Entries of the oplog that change streams share.
    ChangeStreams,
    /// Large values that flushes and compactions of the engine hold.
    Compactions,
    /// Keys that the engine's conflict table remembers while older snapshots are open.
    Conflicts,
    /// Buffers and stacks of connections.
    Connections,
    /// Sorts and groups of cursors between two requests.
    Cursors,
    /// Values built by the expressions and operators of a request, beyond its first megabyte and in addition to its
    /// other charges.
    Evaluation,
    /// Sorts, groups and other operators that hold documents in a running query.
    Execution,
    /// Keys collected by index builds.
    IndexBuilds,
    /// Cursors between two requests, without their sorts and groups.
    OpenCursors,
    /// Cached plans.
    Plans,
    /// Replies larger than a connection's own buffer. Apart from the messages: those of writes may wait for long, while
    /// reads go on.
    Replies,
    /// Messages larger than a connection's own buffer, with the memory for handling them.
    Requests,
    /// Memory of scripts.
    Scripts,
    /// Staged writes that are not committed.
    Transactions,
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Limit in percent of the budget.
    pub(crate) percent: u64,
    /// True if the memory comes from this program's allocator and is allocated and freed by the thread that charges
    /// it. Then the thread's meter does not count it again. False for stacks and for memory kept by the engine, and
    /// for memory that threads share, which is taken out of their meters where it is allocated.
    pub(crate) covers: bool,
}

impl Pool {
    /// All pools, sorted by name.
    pub const ALL: [Pool; 15] = [
        Pool::Audit,
        Pool::ChangeStreams,
        Pool::Compactions,
        Pool::Conflicts,
        Pool::Connections,
        Pool::Cursors,
        Pool::Evaluation,
        Pool::Execution,
        Pool::IndexBuilds,
        Pool::OpenCursors,
        Pool::Plans,
        Pool::Replies,
        Pool::Requests,
        Pool::Scripts,
        Pool::Transactions,
    ];

    /// The pool's name in `serverStatus`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub(crate) fn covers(self) -> bool {
        self.row().covers
    }

    pub(crate) fn row(self) -> Row {
        let (name, percent, covers) = match self {
            Pool::Audit => ("audit", 10, false),
            Pool::ChangeStreams => ("changeStreams", 5, false),
            Pool::Compactions => ("compactions", 25, false),
            Pool::Conflicts => ("conflicts", 8, false),
            Pool::Connections => ("connections", 25, false),
            Pool::Cursors => ("cursors", 20, true),
            Pool::Evaluation => ("evaluation", 30, true),
            Pool::Execution => ("execution", 40, true),
            Pool::IndexBuilds => ("indexBuilds", 20, true),
            Pool::OpenCursors => ("openCursors", 20, true),
            Pool::Plans => ("plans", 5, true),
            Pool::Replies => ("replies", 30, true),
            Pool::Requests => ("requests", 30, true),
            Pool::Scripts => ("scripts", 25, true),
            Pool::Transactions => ("transactions", 20, false),
        };
        Row { name, percent, covers }
    }
}
