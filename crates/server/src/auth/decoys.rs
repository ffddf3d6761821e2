//! Decoys: made-up login data for users that do not exist, so that a client cannot probe which names exist.
//!
//! Before a login is complete, a client learns the mechanisms of a user (from `hello`, or from the refusal of a
//! mechanism), the salt and the iteration count. Users differ in these: the iteration count is the one that was
//! configured when the password was set, and a user may have one mechanism only. If all unknown names got the
//! same answer, the other answers would reveal real users.
//!
//! An unknown name therefore gets the *shape* (mechanisms and iteration counts) of an existing user. A keyed
//! hash of the name chooses it, weighted by the number of users with that shape:
//!
//!   users           3 x {SHA-1: 10000, SHA-256: 15000}     1 x {SHA-256: 20000}
//!   unknown names   3/4 of all hashes                      1/4 of all hashes
//!
//! Invariants
//! - The answers for a name do not change while the users stay the same, even after a restart.
//!   The key of the hash is the UUID of `admin.system.users`: it is random, created with the first user, and
//!   visible only to clients that may list the collections of `admin`.
//! - A decoy whose shape changes also gets another salt, like a user whose password is changed.
//! - Known and unknown names take the same time: see [`super::users::credential`].

use nagi_error::Result;

use super::Auth;
use super::documents::{self, Kind};
use super::scram::{Credential, MECHANISMS, Mechanism};
use super::users::iteration_counts;
use crate::names::UserName;

/// The number of user documents that are read to collect shapes.
const USERS_SAMPLED_MAX: u64 = 1000;
/// The number of distinct shapes. Shapes beyond it are not imitated.
const SHAPES_MAX: usize = 16;

/// Iteration counts by position in [`MECHANISMS`]; `None` where the user lacks the mechanism.
pub(crate) type Counts = [Option<u32>; 2];

/// The login data that some users have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shape {
    counts: Counts,
    user_count: u64,
    /// The `_id` of one of these users.
    model: String,
}

/// The data from which decoys are made. It is immutable and belongs to one generation of the users.
#[derive(Debug)]
pub(crate) struct Decoys {
    pub(crate) generation: u64,
    key: [u8; 16],
    /// Empty if there are no users that could log in to this server.
    shapes: Vec<Shape>,
    /// The shape to use while there are no users: the configured iteration counts.
    usual: Counts,
}

impl Decoys {
    /// Collects the shapes of the users. Reads at most [`USERS_SAMPLED_MAX`] documents.
    pub(crate) fn new(auth: &Auth, generation: u64) -> Result<Decoys> {
        let mut shapes: Vec<Shape> = Vec::new();
        let mut seen = 0;
        documents::each(&auth.store, Kind::Users, &mut |doc| {
            seen += 1;
            let counts = iteration_counts(doc);
            match shapes.iter().position(|shape| shape.counts == counts) {
                Some(at) => shapes[at].user_count += 1,
                None if counts == Counts::default() || shapes.len() == SHAPES_MAX => {}
                None => {
                    let model = doc.get("_id").as_str().unwrap_or_default().to_owned();
                    shapes.push(Shape { counts, user_count: 1, model });
                }
            }
            Ok(seen < USERS_SAMPLED_MAX)
        })?;
        shapes.sort_unstable_by_key(|shape| shape.counts);
        let collection = auth.store.collection(&Kind::Users.namespace());
        let usual = MECHANISMS
            .map(|mechanism| u32::try_from(auth.params.int(mechanism.iterations_parameter())).ok());
        let key = collection.map_or(*auth.secret(), |users| users.uuid.0);
        Ok(Decoys { generation, key, shapes, usual })
    }

    /// The shape of an unknown name, chosen by its hash.
    fn shape(&self, name: &UserName) -> Option<&Shape> {
        let hash = Mechanism::Sha256.hmac(&self.key, format!("shape {}", name.id()).as_bytes());
        let draw = hash.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let total: u64 = self.shapes.iter().map(|shape| shape.user_count).sum();
        // The hash is scaled rather than reduced by a remainder: then a new user moves few names to another
        // shape.
        let mut point = ((u128::from(draw) * u128::from(total)) >> 64) as u64;
        self.shapes.iter().find(|shape| {
            let found = point < shape.user_count;
            point = point.saturating_sub(shape.user_count);
            found
        })
    }

    /// The `_id` of an existing user with the shape of this name's decoy; empty if there are no users.
    pub(crate) fn model(&self, name: &UserName) -> &str {
        self.shape(name).map_or("", |shape| &shape.model)
    }

    /// A credential that matches no password; `None` if the decoy lacks the mechanism.
    pub(crate) fn credential(&self, name: &UserName, mechanism: Mechanism) -> Option<Credential> {
        let counts = self.shape(name).map_or(self.usual, |shape| shape.counts);
        let seed = format!("salt {} {counts:?}", name.id());
        let mut salt = mechanism.hmac(&self.key, seed.as_bytes());
        let stored_key = mechanism.hmac(&self.key, &salt);
        salt.truncate(mechanism.salt_bytes());
        Some(Credential {
            iteration_count: counts[mechanism as usize]?,
            salt,
            server_key: stored_key.clone(),
            stored_key,
        })
    }

    /// The mechanisms of a decoy; empty while there are no users, because there is nothing to hide then.
    pub(crate) fn mechanisms(&self, name: &UserName) -> Vec<Mechanism> {
        let counts = self.shape(name).map_or(Counts::default(), |shape| shape.counts);
        MECHANISMS.into_iter().filter(|m| counts[*m as usize].is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoys(shapes: &[(Counts, u64)]) -> Decoys {
        let shape = |(counts, user_count): &(Counts, u64)| Shape {
            counts: *counts,
            user_count: *user_count,
            model: format!("{counts:?}"),
        };
        Decoys {
            generation: 1,
            key: [7; 16],
            shapes: shapes.iter().map(shape).collect(),
            usual: [Some(1), Some(2)],
        }
    }

    fn name(n: usize) -> UserName {
        UserName::new(&format!("user{n}"), "db")
    }

    /// Decoys have the shapes of users with the same frequencies, and each name keeps its shape.
    #[test]
    fn shapes_are_as_frequent_as_among_users() {
        let one = [None, Some(15_000)];
        let two = [Some(10_000), Some(20_000)];
        let all = decoys(&[(one, 1), (two, 3)]);
        let again = decoys(&[(one, 1), (two, 3)]);
        let mut first = 0;
        for n in 0..4000 {
            let sha1 = all.credential(&name(n), Mechanism::Sha1);
            let sha256 = all.credential(&name(n), Mechanism::Sha256).unwrap();
            assert!(again.credential(&name(n), Mechanism::Sha256).unwrap() == sha256);
            let counts = [sha1.map(|c| c.iteration_count), Some(sha256.iteration_count)];
            assert!(counts == one || counts == two, "{counts:?}");
            assert_eq!(all.mechanisms(&name(n)).len(), counts.iter().flatten().count());
            assert_eq!(all.model(&name(n)), format!("{counts:?}"));
            first += u32::from(counts == one);
        }
        assert!((800..1200).contains(&first), "{first}");
    }

    #[test]
    fn another_shape_is_another_salt() {
        let before = decoys(&[([None, Some(15_000)], 1)]);
        let after = decoys(&[([None, Some(20_000)], 1)]);
        let salt = |d: &Decoys| d.credential(&name(1), Mechanism::Sha256).unwrap().salt;
        assert_ne!(salt(&before), salt(&after));
        assert_eq!(salt(&before).len(), Mechanism::Sha256.salt_bytes());
    }

    #[test]
    fn without_users_there_is_no_mechanism_to_list() {
        let none = decoys(&[]);
        assert!(none.mechanisms(&name(1)).is_empty());
        assert_eq!(none.credential(&name(1), Mechanism::Sha256).unwrap().iteration_count, 2);
    }
}
