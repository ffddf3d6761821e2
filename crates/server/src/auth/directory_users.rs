//! Users of `$external` whose roles are their groups in a directory (LDAP).
//!
//! ```text
//!   login      --> known and fresh, or read from the directory --> DirectoryUser, held by the connection's login
//!   every 30 s --> each known user is read from the directory   --> roles differ: generation + 1
//!   request    --> generation differs --> the login is resolved again, from the known roles
//! ```
//!
//! A group is the role of `admin` with the group's distinguished name.
//!
//! Invariants
//! - Requests do not wait for the directory, except the first one after `invalidateUserCache`, or after the
//!   invalidation interval if users are not refreshed.
//! - While no server of the directory answers, connections that are logged in keep their last known roles, as in
//!   MongoDB, and new logins fail after the staleness interval.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use nagi_error::{Code, Result, err};
use parking_lot::Mutex;

use super::users::not_found;
use crate::directory::{Directory, DirectoryError};
use crate::names::{EXTERNAL, RoleName, UserName};
use crate::settings::params::Parameters;

/// The number of known users that are not logged in. When it is reached, all of them are forgotten.
const KNOWN_COUNT_MAX: usize = 10_000;

/// The directory, and the users that it told about.
pub(crate) struct DirectoryUsers {
    params: Arc<Parameters>,
    directory: Option<Arc<dyn Directory>>,
    known: Mutex<HashMap<UserName, Arc<DirectoryUser>, RandomState>>,
    /// When all users were last refreshed or invalidated.
    passed_at: Mutex<Instant>,
}

/// A user and its roles, as the directory told.
pub(crate) struct DirectoryUser {
    state: Mutex<State>,
    /// The roles are to be read again before they are used.
    is_invalid: AtomicBool,
}

#[derive(Clone)]
struct State {
    /// `None`: the user is no longer in the directory.
    roles: Option<Arc<[RoleName]>>,
    read_at: Instant,
    used_at: Instant,
}

impl DirectoryUser {
    pub(crate) fn roles(&self) -> Option<Arc<[RoleName]>> {
        self.state.lock().roles.clone()
    }

    /// Stores what the directory told. Returns true if it differs from before.
    fn store(&self, roles: Option<Arc<[RoleName]>>, now: Instant) -> bool {
        let mut state = self.state.lock();
        let differs = state.roles != roles;
        state.roles = roles;
        state.read_at = now;
        differs
    }
}

impl DirectoryUsers {
    pub(crate) fn new(params: Arc<Parameters>, directory: Option<Arc<dyn Directory>>) -> Self {
        let passed_at = Mutex::new(crate::clock::now());
        DirectoryUsers { params, directory, known: Mutex::default(), passed_at }
    }

    pub(crate) fn directory(&self) -> Option<&Arc<dyn Directory>> {
        self.directory.as_ref()
    }

    /// Returns true if the roles of this user are those of its groups.
    pub(crate) fn has(&self, name: &UserName) -> bool {
        &*name.db == EXTERNAL && self.directory.as_ref().is_some_and(|d| d.gives_roles())
    }

    /// The user, for a login. Asks the directory, unless it told lately.
    ///
    /// # Errors
    /// 11 if there is no such user, 96 if no server of the directory answers.
    pub(crate) fn log_in(&self, name: &UserName) -> Result<Arc<DirectoryUser>> {
        let now = crate::clock::now();
        if let Some(user) = self.known.lock().get(name).cloned() {
            let mut state = user.state.lock();
            let is_fresh = state.read_at.elapsed() < self.valid_for();
            if is_fresh && state.roles.is_some() && !user.is_invalid.load(Ordering::Relaxed) {
                state.used_at = now;
                drop(state);
                return Ok(user);
            }
        }
        let roles = self.ask(name)?;
        if roles.is_none() {
            return Err(not_found(name));
        }
        let mut known = self.known.lock();
        if known.len() >= KNOWN_COUNT_MAX {
            known.retain(|_, user| Arc::strong_count(user) > 1);
        }
        // Other logins of the user hold this entry, so it is kept.
        let fresh = || {
            let state = Mutex::new(State { roles: None, read_at: now, used_at: now });
            Arc::new(DirectoryUser { state, is_invalid: AtomicBool::new(false) })
        };
        let user = known.entry(name.clone()).or_insert_with(fresh).clone();
        user.store(roles, now);
        user.is_invalid.store(false, Ordering::Relaxed);
        user.state.lock().used_at = now;
        Ok(user)
    }

    /// The roles of a user that is logged in; `None` if the directory told that it is gone. Asks the directory only
    /// after an invalidation; if it does not answer, the last known roles stay.
    pub(crate) fn roles(&self, name: &UserName, user: &DirectoryUser) -> Option<Arc<[RoleName]>> {
        if user.is_invalid.swap(false, Ordering::Relaxed) {
            match self.ask(name) {
                Ok(roles) => {
                    user.store(roles, crate::clock::now());
                }
                Err(error) => {
                    log::warn!(target: "ACCESS", id = 20_248, user = name.to_string(), error = error.message();
                        "Could not fetch updated user privilege information; continuing to use old \
                         information");
                }
            }
        }
        user.roles()
    }

    /// Makes the roles of all users be read again before they are used. The caller advances the generation.
    pub(crate) fn invalidate(&self) {
        self.known.lock().retain(|_, user| {
            user.is_invalid.store(true, Ordering::Relaxed);
            Arc::strong_count(user) > 1
        });
    }

    /// Refreshes or invalidates all users, if it is time. Returns true if the generation is to be advanced.
    pub(crate) fn pass(&self, is_stopping: &dyn Fn() -> bool) -> bool {
        let now = crate::clock::now();
        let refreshes = self.params.bool("ldapShouldRefreshUserCacheEntries");
        let interval = match refreshes {
            true => self.seconds("ldapUserCacheRefreshInterval"),
            false => self.seconds("ldapUserCacheInvalidationInterval"),
        };
        {
            let mut passed_at = self.passed_at.lock();
            let is_due = now.saturating_duration_since(*passed_at) >= interval;
            if !is_due || !self.directory.as_ref().is_some_and(|d| d.gives_roles()) {
                return false;
            }
            *passed_at = now;
        }
        if !refreshes {
            self.invalidate();
            return true;
        }
        self.refresh(now, is_stopping)
    }

    /// Asks the directory about each known user. Ends at the first failure: the others would wait for it, too.
    fn refresh(&self, now: Instant, is_stopping: &dyn Fn() -> bool) -> bool {
        let kept_for = self.valid_for();
        let all: Vec<(UserName, Arc<DirectoryUser>)> = {
            let mut known = self.known.lock();
            known.retain(|_, user| {
                let unused = now.saturating_duration_since(user.state.lock().used_at) > kept_for;
                Arc::strong_count(user) > 1 || !unused
            });
            known.iter().map(|(name, user)| (name.clone(), user.clone())).collect()
        };
        let mut differs = false;
        for (name, user) in all {
            if is_stopping() {
                break;
            }
            match self.ask(&name) {
                Ok(roles) => differs |= user.store(roles, crate::clock::now()),
                Err(error) => {
                    log::warn!(target: "ACCESS", id = 8_200_223, error = error.message();
                        "The users of LDAP could not be refreshed; their last known roles stay");
                    break;
                }
            }
        }
        differs
    }

    /// How long the roles of a user may be used for new logins.
    fn valid_for(&self) -> Duration {
        match self.params.bool("ldapShouldRefreshUserCacheEntries") {
            true => self.seconds("ldapUserCacheStalenessInterval"),
            false => self.seconds("ldapUserCacheInvalidationInterval"),
        }
    }

    fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs(u64::try_from(self.params.int(name)).unwrap_or(0))
    }

    fn ask(&self, name: &UserName) -> Result<Option<Arc<[RoleName]>>> {
        let Some(directory) = &self.directory else { return Ok(None) };
        match directory.groups(&name.name) {
            Ok(groups) => Ok(groups
                .map(|groups| groups.iter().map(|group| RoleName::new(group, "admin")).collect())),
            Err(DirectoryError::Refused(why) | DirectoryError::Unavailable(why)) => Err(err!(
                Code::OPERATION_FAILED,
                "the roles of '{name}' could not be read from LDAP: {why}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::result::Result;

    use super::*;
    use crate::directory::{DirectorySetting, DirectoryStatus};

    /// A directory with one user, whose groups or failure the test sets.
    struct Fake(Mutex<Result<Option<Vec<String>>, DirectoryError>>);

    impl Directory for Fake {
        fn authenticate(&self, _: &str, _: &str) -> Result<(), DirectoryError> {
            Ok(())
        }
        fn gives_roles(&self) -> bool {
            true
        }
        fn groups(&self, _: &str) -> Result<Option<Vec<String>>, DirectoryError> {
            self.0.lock().clone()
        }
        fn set(&self, _: DirectorySetting, _: &str) -> Result<(), String> {
            Ok(())
        }
        fn shown(&self, _: DirectorySetting) -> String {
            String::new()
        }
        fn close_unused(&self) {}
        fn status(&self) -> DirectoryStatus {
            DirectoryStatus::default()
        }
    }

    fn users(settings: &[(&str, &str)]) -> (Arc<Fake>, DirectoryUsers) {
        let settings: Vec<_> =
            settings.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let fake = Arc::new(Fake(Mutex::new(Ok(Some(vec!["cn=a".to_owned()])))));
        let params = Arc::new(Parameters::new(&settings).unwrap());
        (fake.clone(), DirectoryUsers::new(params, Some(fake)))
    }

    fn down() -> Result<Option<Vec<String>>, DirectoryError> {
        Err(DirectoryError::Unavailable("down".to_owned()))
    }

    fn pass_now(users: &DirectoryUsers) -> bool {
        *users.passed_at.lock() = crate::clock::now() - Duration::from_secs(100_000);
        users.pass(&|| false)
    }

    #[test]
    fn groups_change_and_users_go() {
        let (fake, users) = users(&[]);
        let ann = UserName::new("ann", EXTERNAL);
        assert!(users.has(&ann) && !users.has(&UserName::new("ann", "admin")));
        let user = users.log_in(&ann).unwrap();
        let names = |user: &DirectoryUser| -> Option<Vec<String>> {
            users.roles(&ann, user).map(|roles| roles.iter().map(|r| r.name.to_string()).collect())
        };
        assert_eq!(names(&user).unwrap(), ["cn=a"]);
        assert!(!pass_now(&users), "nothing has changed");
        *fake.0.lock() = Ok(Some(vec!["cn=b".to_owned()]));
        assert!(!users.pass(&|| false), "it is not time yet");
        assert!(pass_now(&users));
        assert_eq!(names(&user).unwrap(), ["cn=b"]);
        *fake.0.lock() = Ok(None);
        assert!(pass_now(&users) && names(&user).is_none());
        assert_eq!(users.log_in(&ann).err().unwrap().code(), Code::USER_NOT_FOUND);
    }

    #[test]
    fn without_a_directory_known_roles_stay_and_logins_need_fresh_ones() {
        let (fake, users) = users(&[("ldapUserCacheStalenessInterval", "1")]);
        let ann = UserName::new("ann", EXTERNAL);
        let user = users.log_in(&ann).unwrap();
        *fake.0.lock() = down();
        assert!(!pass_now(&users));
        assert!(users.log_in(&ann).is_ok(), "the roles are fresh enough");
        user.state.lock().read_at = crate::clock::now() - Duration::from_secs(2);
        assert_eq!(users.log_in(&ann).err().unwrap().code(), Code::OPERATION_FAILED);
        users.invalidate();
        assert!(users.roles(&ann, &user).is_some());
        // It was asked once; the next request does not wait for it again.
        *fake.0.lock() = Ok(None);
        assert!(users.roles(&ann, &user).is_some());
        assert!(pass_now(&users) && users.roles(&ann, &user).is_none());
    }

    #[test]
    fn users_that_are_not_logged_in_are_forgotten() {
        let (_, users) = users(&[("ldapShouldRefreshUserCacheEntries", "false")]);
        let held = users.log_in(&UserName::new("held", EXTERNAL)).unwrap();
        for n in 0..KNOWN_COUNT_MAX + 10 {
            users.log_in(&UserName::new(&format!("u{n}"), EXTERNAL)).unwrap();
        }
        assert!(users.known.lock().len() <= KNOWN_COUNT_MAX);
        assert!(pass_now(&users));
        assert_eq!(users.known.lock().len(), 1);
        assert!(held.is_invalid.load(Ordering::Relaxed));
    }
}
