//! What the fuzz target `ldap` needs: connections to a server that is in the same thread.

use std::net::TcpStream;

use crate::Ldap;
use crate::connection::Connection;
use crate::pool::Purpose;

impl Ldap {
    /// Keeps an open socket as an unused connection to the first server: the next request that checks a password, or
    /// with `is_for_queries` the next query, is sent on it.
    ///
    /// # Errors
    /// None without TLS.
    pub fn keep_socket(&self, socket: TcpStream, is_for_queries: bool) -> Result<(), String> {
        let current = self.current();
        let host = &current.hosts[0];
        let connection = Connection::on(socket, &host.address.host, None, current.deadline());
        let purpose = if is_for_queries { Purpose::Query } else { Purpose::Bind };
        let connection = connection.map_err(|failure| format!("{failure:?}"))?;
        self.pool.put(host, purpose, connection);
        Ok(())
    }
}
