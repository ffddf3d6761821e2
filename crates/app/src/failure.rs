//! The error of a failed start, and the exit statuses of the program.

/// The exit statuses: mongod's for the server.
pub(crate) mod exit {
    use nagi_error::Code;

    pub(crate) const SUCCESS: u8 = 0;
    pub(crate) const FAILURE: u8 = 1;
    pub(crate) const BAD_OPTIONS: u8 = 2;
    pub(crate) const CRITICAL: u8 = 3;
    /// mongos ends with it if it cannot reach its cluster.
    pub(crate) const CLUSTER: u8 = 5;
    pub(crate) const UNRECOVERABLE: u8 = 14;
    pub(crate) const PORT_IN_USE: u8 = 48;
    pub(crate) const DATA_FOLDER: u8 = 100;
    /// Of a panic in the main thread, by Rust's convention.
    pub(crate) const PANIC: u8 = 101;

    /// The status if the store cannot be opened: data of a newer version is not damaged, nor is that of a cluster that
    /// does not answer, or whose data a server has alone.
    pub(crate) fn of_store(error: &nagi_error::Error) -> u8 {
        match error.code() {
            Code::UNSUPPORTED_FORMAT => DATA_FOLDER,
            _ if is_of_cluster(error) => CLUSTER,
            _ => UNRECOVERABLE,
        }
    }

    /// True for errors that only a cluster causes, and that pass.
    pub(crate) fn is_of_cluster(error: &nagi_error::Error) -> bool {
        let codes = [Code::HOST_UNREACHABLE, Code::DB_PATH_IN_USE, Code::SHUTDOWN_IN_PROGRESS];
        codes.contains(&error.code())
    }

    /// An exit status.
    pub(crate) struct Status {
        pub(crate) code: u8,
        /// The commands that exit with it, separated by commas.
        pub(crate) commands: &'static str,
        pub(crate) meaning: &'static str,
        /// What to do about it; empty if there is nothing to do.
        pub(crate) advice: &'static str,
    }

    const fn status(
        code: u8,
        commands: &'static str,
        meaning: &'static str,
        advice: &'static str,
    ) -> Status {
        Status { code, commands, meaning, advice }
    }

    /// All of them, sorted by code. `nagi help exit-codes`, the manual page and `docs/exit-codes.md` are made of these
    /// rows.
    #[rustfmt::skip]
    pub(crate) static STATUSES: &[Status] = &[
        status(SUCCESS, "all", "success; of a server: a clean shutdown by a signal or the command shutdown", ""),
        status(SUCCESS, "doctor", "no finding, or notes only", ""),
        status(FAILURE, "serve", "the log file, the audit file, the file of the process id, the key file, a file of \
            TLS, the encryption key or the directory of a Unix socket cannot be used; no KMIP server answers; with \
            --shutdown: no server runs on the data directory, or it may not be stopped",
            "Check the path and the permissions that the message names."),
        status(FAILURE, "backup, restore, diagnostics", "the copy could not be made, or a file is damaged",
            "Read the message; a damaged file is named with its path."),
        status(FAILURE, "copy", "the copy was stopped by a signal or could not be continued, or the target differs \
            from the source", "Read the message: most causes can be removed, and the same command continues; \
            docs/copy.md has the failures."),
        status(FAILURE, "ping", "the server does not answer", "Read the message, and the server's log."),
        status(FAILURE, "advise", "the server does not answer, or the user has too few rights", "Read the message; \
            docs/advice.md has the rights."),
        status(FAILURE, "ldap-check", "a step failed", "Read the lines below [FAIL]; docs/ldap.md explains the steps."),
        status(FAILURE, "doctor", "there are warnings, but no critical finding",
            "Run the command under \"fix\" of each finding."),
        status(BAD_OPTIONS, "all", "wrong usage: an unknown command or option, a bad value, options that exclude each \
            other, an error in the configuration file, an unknown server parameter; a server that other machines \
            could use without a login (--allowUnsafe)", "The message names the option, \
            the expected values and the nearest name, and for a file the line."),
        status(CRITICAL, "doctor", "there is a critical finding",
            "Fix it before the server is used; it is first in the list."),
        status(CLUSTER, "serve", "with --storageEngine tikv: the cluster does not answer at the start, or a server of \
            an older release has the data alone, or the other servers have given this one up, because it did not \
            renew its lease", "Start the server again later, as a supervisor does. The message names the placement \
            drivers or the other server."),
        status(UNRECOVERABLE, "serve", "the data is damaged, --repair failed, or the journal or the data could not be \
            written", "Read the log. Start once with --repair to save what is readable, or restore a backup. Check \
            the disk."),
        status(PORT_IN_USE, "serve", "the server cannot listen at an address or a Unix socket, usually because \
            another process uses the port", "Choose another --port, or stop the other process: ss -ltnp shows it."),
        status(DATA_FOLDER, "serve", "the data directory is missing, not accessible, in use by another server, of \
            another storage engine, another program or a newer version, encrypted with another key, encrypted although \
            encryption is off or the reverse, encrypted without its file encryption.keys, or its disk is full",
            "Read the message: it has the path and the reason."),
        status(PANIC, "all", "an error in the program", "Please report it with the log."),
    ];

    /// Statuses that a shell shows for a process that a signal stopped.
    pub(crate) const BY_SIGNAL: &str = "A status above 128 is that of a process that a signal stopped: 128 and the \
        number of the signal. 137 (SIGKILL) is often the kernel, because the memory of the machine or of the control \
        group was used up: see dmesg and --cacheSizeGB. With --fork the command exits with the status of the server \
        if it could not start.";

    #[test]
    fn statuses_are_sorted() {
        assert!(STATUSES.is_sorted_by_key(|status| status.code));
        assert!(STATUSES.iter().all(|status| status.code == SUCCESS || !status.advice.is_empty()));
    }
}

pub(crate) const TERMINATING: &str = "DBException in initAndListen, terminating";

/// A failed start: the log message and the exit code.
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) id: i64,
    pub(crate) message: &'static str,
    pub(crate) error: String,
}

/// The storage engine cannot use the data directory.
pub(crate) fn not_opened(error: String, code: u8) -> Failure {
    Failure {
        code,
        id: 28595,
        message: "Terminating: the storage engine could not be opened",
        error,
    }
}
