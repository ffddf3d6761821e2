//! Commands without frames: the interface for applications that contain the database.
//!
//! ```text
//!  net:       frame -> handle --+
//!                               +-> dispatch::run -> reply document
//!  nagi:  body, documents ------+
//! ```

use std::sync::Arc;

use nagi_bson::{Doc, DocWriter};

use crate::core::connection::Connection;
use crate::core::server::Server;
use crate::request::{Protocol, Sequence};
use crate::transport::dispatch::{self, Incoming};

impl Server {
    /// Runs one command on the calling thread and appends its reply document to `out`. Returns false if the command
    /// closes its connection instead of replying.
    ///
    /// `documents` is an array of the command as valid documents one after the other, under the array's name, as in a
    /// document sequence of OP_MSG; `body` does not contain it then. An error of the command is its reply. Blocks as
    /// long as the command does.
    pub fn run_command(
        self: &Arc<Server>,
        connection: &mut Connection,
        db: &str,
        body: Doc<'_>,
        documents: Option<(&str, &[u8])>,
        out: &mut Vec<u8>,
    ) -> bool {
        let sequence = documents.map(|(name, bytes)| Sequence { name, bytes });
        let incoming = Incoming {
            db: Some(db),
            body,
            sequences: sequence.as_slice(),
            protocol: Protocol::Msg,
            exhaust_allowed: false,
        };
        connection.stream = None;
        let mut writer = DocWriter::new(out);
        let done = dispatch::run(self, connection, &incoming, &mut writer);
        writer.finish();
        connection.reply_sent();
        !(done.close || done.unanswered)
    }
}
