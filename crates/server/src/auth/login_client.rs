//! The client side of SCRAM, for the command-line tools of `nagi`.

use nagi_bson::json::{base64_decode, base64_encode};

use super::scram::Mechanism;

/// The largest iteration count that a server may demand. More would be an attack on the client's time.
const ITERATION_COUNT_MAX: u32 = 1_000_000;

/// A login in progress. Send [`LoginClient::first`], then [`LoginClient::answer`] to the server's reply, and
/// check the server's last message by [`LoginClient::accepts`].
pub struct LoginClient {
    mechanism: Mechanism,
    password: String,
    nonce: String,
    first_bare: String,
    server_signature: Vec<u8>,
}

impl LoginClient {
    /// The names of the mechanisms that [`LoginClient::new`] accepts.
    pub const MECHANISMS: &'static [&'static str] = &["SCRAM-SHA-1", "SCRAM-SHA-256"];

    /// Begins a login. Errors are texts for the user.
    pub fn new(mechanism: &str, user: &str, password: &str) -> Result<LoginClient, String> {
        let Some(mechanism) = Mechanism::parse(mechanism) else {
            return Err(format!("authentication with {mechanism} is not supported"));
        };
        let prepared = mechanism.prepare(user, password, false);
        let password = prepared.map_err(|error| error.message().to_owned())?.into_owned();
        let mut nonce = String::new();
        let random = crate::random::random_bytes();
        base64_encode(&mut nonce, &random.map_err(|error| error.message().to_owned())?);
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={user},r={nonce}");
        Ok(LoginClient { mechanism, password, nonce, first_bare, server_signature: Vec::new() })
    }

    /// The payload of `saslStart`.
    pub fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.first_bare).into_bytes()
    }

    /// The payload of `saslContinue`, computed from the server's first message. Takes the iteration count of
    /// HMACs.
    pub fn answer(&mut self, server_first: &[u8]) -> Result<Vec<u8>, String> {
        let text = std::str::from_utf8(server_first).map_err(|_| unusable())?;
        let field = |name: &str| text.split(',').find_map(|part| part.strip_prefix(name));
        let nonce = field("r=").ok_or_else(unusable)?;
        let salt = field("s=").and_then(base64_decode).ok_or_else(unusable)?;
        let count = field("i=").and_then(|count| count.parse::<u32>().ok()).ok_or_else(unusable)?;
        if !nonce.starts_with(&self.nonce) || !(1..=ITERATION_COUNT_MAX).contains(&count) {
            return Err(unusable());
        }
        let last_bare = format!("c=biws,r={nonce}");
        let message = format!("{},{text},{last_bare}", self.first_bare);
        let hash = self.mechanism;
        let (client_key, credential) = hash.derive_for_client(&self.password, salt, count);
        let signature = hash.hmac(&credential.stored_key, message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        self.server_signature = hash.hmac(&credential.server_key, message.as_bytes());
        let mut last = format!("{last_bare},p=");
        base64_encode(&mut last, &proof);
        Ok(last.into_bytes())
    }

    /// Returns true if the server has proved that it knows the user's credential.
    pub fn accepts(&self, server_last: &[u8]) -> bool {
        let text = std::str::from_utf8(server_last).unwrap_or("");
        let signature = text.strip_prefix("v=").and_then(base64_decode);
        !self.server_signature.is_empty() && signature.as_ref() == Some(&self.server_signature)
    }
}

fn unusable() -> String {
    "the server's answer to the login makes no sense".to_owned()
}
