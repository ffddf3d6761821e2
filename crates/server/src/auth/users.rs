//! Users: their documents and credentials, and their resolution to roles and privileges.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nagi_bson::{Array, ArrayBuf, Binary, Doc, DocBuf, DocWriter, Value, json};
use nagi_error::{Code, Error, Result, bail, err};
use nagi_store::Store;

use super::Auth;
use super::decoys::{Counts, Decoys};
use super::documents::{self, Kind};
use super::privilege::PrivilegeSet;
use super::restrictions::Restrictions;
use super::roles::{self, Closure};
use super::scram::{Credential, CredentialId, MECHANISMS, Mechanism};
use crate::names::{self, RoleName, UserName};
use crate::random::random_bytes;

/// The minimum duration of a lookup. It is longer than the work, so that the duration does not reveal what was
/// in a cache. A login takes two lookups.
const LOOKUP_TIME: Duration = Duration::from_millis(1);

/// A resolved user, as connections hold it.
pub(crate) struct User {
    pub(crate) name: UserName,
    /// The UUID of the user's document. A user that is dropped and created again has another one.
    pub(crate) id: Option<[u8; 16]>,
    /// Its stored credentials, one for each mechanism at most.
    pub(crate) credentials: Vec<CredentialId>,
    /// Its roles and all roles that they contain.
    pub(crate) closure: Closure,
    pub(crate) set: PrivilegeSet,
    /// The restrictions on its logins: its own and those of its roles.
    pub(crate) restrictions: Vec<Restrictions>,
    /// The variable `$$USER_ROLES`: the closure's roles as `[{_id, role, db}, ...]`.
    pub(crate) role_list: Arc<ArrayBuf>,
}

/// The error for a user that does not exist.
pub(crate) fn not_found(name: &UserName) -> Error {
    err!(Code::USER_NOT_FOUND, "User '{name}' not found")
}

/// Resolves a user: reads its document and the documents of all its roles.
pub(crate) fn resolve(store: &Store, name: &UserName) -> Result<Option<User>> {
    let Some(doc) = documents::read(store, Kind::Users, &name.id())? else { return Ok(None) };
    let doc = doc.as_doc();
    let id = match doc.get("userId") {
        Value::Binary(Binary { subtype: 4, bytes }) => bytes.try_into().ok(),
        _ => None,
    };
    let credentials = MECHANISMS.into_iter().filter_map(|m| Some(parse_credential(doc, m)?.id(m)));
    let credentials = credentials.collect();
    let mut user = User { id, credentials, ..with_roles(store, name, &roles_of(doc)?)? };
    if let Value::Array(own) = doc.get("authenticationRestrictions") {
        user.restrictions.push(Restrictions::parse(own)?);
    }
    Ok(Some(user))
}

/// A user that has these roles, and no document. Reads the documents of the roles.
pub(crate) fn with_roles(store: &Store, name: &UserName, roles: &[RoleName]) -> Result<User> {
    let closure = roles::closure(store, roles)?;
    let restrictions = closure.restrictions.clone();
    let set = PrivilegeSet::new(&closure.privileges);
    let role_list = Arc::new(ArrayBuf::build(|out| {
        for role in &closure.roles {
            out.doc(|doc| {
                doc.put("_id", &*role.id());
                role.write("role", doc);
            });
        }
    }));
    let (name, credentials) = (name.clone(), Vec::new());
    Ok(User { name, id: None, credentials, closure, set, restrictions, role_list })
}

/// The roles in the document of a user or role.
pub(crate) fn roles_of(doc: Doc<'_>) -> Result<Vec<RoleName>> {
    match doc.get("roles") {
        Value::Array(roles) => names::parse_roles(roles, ""),
        _ => Ok(Vec::new()),
    }
}

/// The credential of a user for a mechanism, and true if the user exists. For an unknown user the credential is
/// made up.
///
/// A user without the mechanism is refused at once, and so are the decoys of such users: a driver that guessed
/// the mechanism then tries the other one. Known and unknown names take the same steps: documents are looked
/// up, a decoy is computed, a credential is parsed. The call takes at least [`LOOKUP_TIME`].
///
/// # Errors
/// 334 if the user, or the decoy, lacks the mechanism.
pub(crate) fn credential(
    auth: &Auth,
    name: &UserName,
    mechanism: Mechanism,
) -> Result<(bool, Credential)> {
    let began = Instant::now();
    let decoys = auth.decoys()?;
    let made_up = decoys.credential(name, mechanism);
    let (own, model) = own_and_model(auth, &decoys, name)?;
    let known = own.is_some();
    let parsed = own.or(model).and_then(|document| parse_credential(document.as_doc(), mechanism));
    wait_since(began);
    match if known { parsed } else { made_up } {
        Some(credential) => Ok((known, credential)),
        None => bail!(
            Code::MECHANISM_UNAVAILABLE,
            "Unable to use {} based authentication for user without any {} credentials registered",
            mechanism.name(),
            mechanism.name()
        ),
    }
}

/// The mechanisms for which a user has credentials; for an unknown name those of its decoy. Takes at least
/// [`LOOKUP_TIME`].
pub(crate) fn mechanisms(auth: &Auth, name: &UserName) -> Result<Vec<Mechanism>> {
    let began = Instant::now();
    let decoys = auth.decoys()?;
    let made_up = decoys.mechanisms(name);
    let (own, model) = own_and_model(auth, &decoys, name)?;
    let known = own.is_some();
    let parsed = own.or(model).map(|document| mechanisms_of(document.as_doc()));
    wait_since(began);
    Ok(if known { parsed.unwrap_or_default() } else { made_up })
}

/// Waits until [`LOOKUP_TIME`] has passed since `began`.
fn wait_since(began: Instant) {
    if let Some(rest) = LOOKUP_TIME.checked_sub(began.elapsed()) {
        thread::sleep(rest);
    }
}

/// The document of a user, and the document of the user after which its decoy is modelled. The lookups are the
/// same for known and unknown names: two documents that exist and one that does not, which takes longer.
fn own_and_model(
    auth: &Auth,
    decoys: &Decoys,
    name: &UserName,
) -> Result<(Option<DocBuf>, Option<DocBuf>)> {
    let id = name.id();
    let own = documents::read(&auth.store, Kind::Users, &id)?;
    let model = decoys.model(name);
    // No user has this `_id`, because names contain no NUL.
    let nobody = format!("{id}\0");
    let other = if own.is_some() { nobody.as_str() } else { model };
    std::hint::black_box(documents::read(&auth.store, Kind::Users, other)?);
    Ok((own, documents::read(&auth.store, Kind::Users, model)?))
}

/// Iteration counts by mechanism; `None` where the document has no credential.
pub(crate) fn iteration_counts(doc: Doc<'_>) -> Counts {
    MECHANISMS.map(|mechanism| Some(parse_credential(doc, mechanism)?.iteration_count))
}

/// The mechanisms for which a user's document has credentials.
pub(crate) fn mechanisms_of(doc: Doc<'_>) -> Vec<Mechanism> {
    MECHANISMS.into_iter().filter(|m| parse_credential(doc, *m).is_some()).collect()
}

fn parse_credential(doc: Doc<'_>, mechanism: Mechanism) -> Option<Credential> {
    let doc = doc.get("credentials").as_doc()?.get(mechanism.name()).as_doc()?;
    let bytes = |name: &str| json::base64_decode(doc.get(name).as_str()?);
    let key = |name: &str| bytes(name).filter(|key| key.len() == mechanism.hash_bytes());
    Some(Credential {
        iteration_count: u32::try_from(crate::number::truncate(doc.get("iterationCount"))?).ok()?,
        salt: bytes("salt")?,
        stored_key: key("storedKey")?,
        server_key: key("serverKey")?,
    })
}

/// A password argument and the mechanisms for which credentials are derived from it.
pub(crate) struct Password<'a> {
    pub(crate) text: &'a str,
    /// True if `text` is already the digest of SCRAM-SHA-1.
    pub(crate) digested: bool,
    pub(crate) mechanisms: Vec<Mechanism>,
}

impl<'a> Password<'a> {
    /// Checks `pwd` (50687 if it is empty), `mechanisms` and `digestPassword`. A mechanism in the argument must be
    /// enabled (2); without the argument all enabled ones are used, and at least one must remain (2).
    pub(crate) fn parse(
        auth: &Auth,
        text: &'a str,
        mechanisms: Option<Array<'_>>,
        digest: Option<bool>,
    ) -> Result<Password<'a>> {
        if text.is_empty() {
            bail!(Code::Location(50687), "Password cannot be empty");
        }
        let digested = digest == Some(false);
        let mechanisms = match mechanisms {
            Some(list) => {
                let named = parse_mechanisms(list)?;
                if let Some(mechanism) =
                    named.iter().find(|mechanism| !mechanism.is_enabled(&auth.params))
                {
                    bail!(Code::BAD_VALUE, "{} not supported in authMechanisms", mechanism.name());
                }
                named
            }
            // A digest cannot be hashed for SCRAM-SHA-256.
            None => MECHANISMS
                .into_iter()
                .filter(|mechanism| mechanism.is_enabled(&auth.params))
                .filter(|mechanism| !digested || *mechanism == Mechanism::Sha1)
                .collect(),
        };
        if mechanisms.is_empty() {
            bail!(
                Code::BAD_VALUE,
                "User document must provide credentials for all non-external users"
            );
        }
        if digested && mechanisms.contains(&Mechanism::Sha256) {
            bail!(Code::BAD_VALUE, "Use of SCRAM-SHA-256 requires undigested passwords");
        }
        Ok(Password { text, digested, mechanisms })
    }

    /// The field `credentials` of a user's document. Deriving the keys takes tens of milliseconds.
    pub(crate) fn credentials(&self, auth: &Auth, user: &str) -> Result<DocBuf> {
        let mut derived = Vec::new();
        for mechanism in &self.mechanisms {
            let prepared = mechanism.prepare(user, self.text, self.digested)?;
            let count = auth.params.int(mechanism.iterations_parameter());
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let random = [random_bytes()?, random_bytes()?].concat();
            let salt = random[..mechanism.salt_bytes()].to_vec();
            derived.push((*mechanism, mechanism.derive(&prepared, salt, count)));
        }
        Ok(DocBuf::build(|doc| {
            for (mechanism, credential) in &derived {
                doc.doc(mechanism.name(), |doc| write_credential(credential, doc));
            }
        }))
    }
}

/// Parses the names of mechanisms in an argument (2).
pub(crate) fn parse_mechanisms(list: Array<'_>) -> Result<Vec<Mechanism>> {
    if list.is_empty() {
        bail!(Code::BAD_VALUE, "mechanisms field must not be empty");
    }
    let mut mechanisms = Vec::new();
    for value in list.iter() {
        let Value::String(name) = value else {
            bail!(Code::BAD_VALUE, "mechanisms must be an array of strings");
        };
        match Mechanism::parse(name) {
            Some(mechanism) if !mechanisms.contains(&mechanism) => mechanisms.push(mechanism),
            Some(_) => {}
            None => bail!(Code::BAD_VALUE, "Unknown auth mechanism '{name}'"),
        }
    }
    mechanisms.sort_unstable_by_key(|mechanism| mechanism.name());
    Ok(mechanisms)
}

fn write_credential(credential: &Credential, out: &mut DocWriter<'_>) {
    let base64 = |bytes: &[u8]| {
        let mut text = String::new();
        json::base64_encode(&mut text, bytes);
        text
    };
    out.put("iterationCount", credential.iteration_count as i32);
    out.put("salt", base64(&credential.salt).as_str());
    out.put("storedKey", base64(&credential.stored_key).as_str());
    out.put("serverKey", base64(&credential.server_key).as_str());
}
