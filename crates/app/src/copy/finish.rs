//! The end of a copy: no write comes any more, and the target becomes equal to the source.
//!
//! ```text
//!   rounds   collections without events, indexes, options and views are aligned; the changes until now are applied;
//!            again, until a round has found nothing
//!   then     indexes become unique and expiring; both sides are compared; the state is removed
//! ```

use std::time::{Duration, Instant};

use nagi_bson::doc;

use super::flags::Last;
use super::follow::{Follower, Until};
use super::link::{Link, Result, Trouble, failed, whole};
use super::listing::{self, Kind, Listed, Uuid, stored};
use super::progress::note;
use super::state::Phase;
use super::{alter, base, compare, users};

/// A source that is still written to after so many rounds does not rest.
const ROUNDS_MAX: usize = 10;
/// How long open transactions may last, if the source does not tell.
const TRANSACTION_SECONDS: i64 = 60;
const POLL: Duration = Duration::from_millis(100);
/// Requests that were being executed when writes were blocked end within this time.
const SETTLE: Duration = Duration::from_secs(1);

/// Blocks the writes of users at the source and waits until no transaction is open that began before.
pub(super) fn block(source: &mut Link) -> Result<()> {
    set_block(source, true).map_err(|trouble| trouble.during("block the writes of the source"))?;
    note("the source refuses the writes of its users from now on");
    source.stop().pause(SETTLE)?;
    let limit = transaction_seconds(source);
    let end = Instant::now() + Duration::from_secs(limit.unsigned_abs() + 1);
    // A router tells nothing of the transactions of others.
    let is_router = source.greeting()?.get("msg").as_str() == Some("isdbgrid");
    while Instant::now() < end && (is_router || open_transactions(source)? > 0) {
        source.stop().pause(POLL)?;
    }
    Ok(())
}

fn set_block(source: &mut Link, on: bool) -> Result<()> {
    source.run(&doc! { "setUserWriteBlockMode": 1, "global": on, "$db": "admin" }).map(drop)
}

/// Whether the writes of users are blocked already: then somebody else has to allow them.
pub(super) fn is_blocked(source: &mut Link) -> bool {
    let command = doc! { "find": "user_writes_critical_sections",
    "filter": { "blockUserWrites": true }, "$db": "config" };
    // Without the right to read it the block is taken for the own one.
    source.list(&command).is_ok_and(|found| !found.is_empty())
}

/// Lets users write again, after a copy that was not finished.
pub(super) fn unblock(source: &mut Link) {
    let text = match set_block(source, false) {
        Ok(()) => "the source accepts writes again".to_owned(),
        Err(_) => "the source still refuses writes: \
                   db.adminCommand({setUserWriteBlockMode: 1, global: false}) allows them"
            .to_owned(),
    };
    note(&text);
}

fn transaction_seconds(source: &mut Link) -> i64 {
    let command = doc! { "getParameter": 1, "transactionLifetimeLimitSeconds": 1, "$db": "admin" };
    match source.run(&command) {
        Ok(reply) => whole(reply.as_doc(), "transactionLifetimeLimitSeconds"),
        Err(_) => TRANSACTION_SECONDS,
    }
}

fn open_transactions(source: &mut Link) -> Result<i64> {
    let status = source.run(&doc! { "serverStatus": 1, "$db": "admin" })?;
    let transactions = status.get("transactions").as_doc();
    Ok(transactions.map_or(0, |transactions| whole(transactions, "currentOpen")))
}

impl Follower {
    /// Completes the target, and compares. Returns a summary.
    pub(super) fn finish(&mut self, last: &Last) -> Result<String> {
        let listed = self.rounds()?;
        self.state.phase = Phase::Finishing;
        self.state.save(&mut self.target)?;
        for listed in listed.iter().filter(|listed| listed.kind != Kind::View) {
            let Some(entry) = self.state.entries.get(&listed.uuid) else { continue };
            alter::finish(&mut self.source, &mut self.target, listed, &entry.ns)?;
        }
        if last.users {
            users::copy(&mut self.source, &mut self.target)?;
        }
        let summary = self.compare(&listed, last.verify)?;
        let newest = self.newest()?;
        if self.follow(Until::Time(newest))? > 0 {
            return failed(
                "the source was written to while the copy was finished: end what writes to it, and run the command \
                 again",
            );
        }
        listing::drop_own(&mut self.target)?;
        Ok(summary)
    }

    /// Aligns until nothing changes any more. Returns what the source has.
    fn rounds(&mut self) -> Result<Vec<Listed>> {
        for round in 0..ROUNDS_MAX {
            let mut listed = listing::all(&mut self.source, &self.filter)?;
            listed.retain(|listed| self.filter.covers(&listed.ns.db, &listed.ns.name));
            let mut count = self.align_unwatched(&listed)?;
            for listed in listed.iter().filter(|listed| listed.kind != Kind::View) {
                self.align_one(listed)?;
                count += self.align_capped(listed, round)?;
            }
            self.align_views(&listed)?;
            let newest = self.newest()?;
            count += self.follow(Until::Time(newest))?;
            if count == 0 {
                return Ok(listed);
            }
        }
        failed(
            "the source is still written to: end what writes to it and run the command again, or let the command \
             block the writes (--cutOver)",
        )
    }

    /// Time series and `system.js`: created, dropped and made equal as they are now.
    fn align_unwatched(&mut self, listed: &[Listed]) -> Result<u64> {
        let mut count = 0;
        for (uuid, _) in self.unwatched() {
            if !listed.iter().any(|listed| listed.uuid == uuid) {
                count += u64::from(self.dropped(&uuid)?);
            }
        }
        for listed in listed {
            if listed.kind.is_watched() || listed.kind == Kind::View {
                continue;
            }
            let known = self.state.entries.get(&listed.uuid);
            if known.is_none_or(|entry| entry.target == Uuid::default()) {
                self.dropped(&listed.uuid)?;
                self.create(listed.uuid, &listed.ns, listed)?;
            }
            let from = stored(&listed.ns, listed.kind);
            count += compare::sync(&mut self.source, &mut self.target, &from, &from)?;
        }
        Ok(count)
    }

    /// A capped collection has an order, which repeated inserts after an interruption may have changed: then it is
    /// copied again.
    fn align_capped(&mut self, listed: &Listed, round: usize) -> Result<u64> {
        // In the first round changes are still missing.
        let Some(entry) = self.state.entries.get(&listed.uuid).cloned() else { return Ok(0) };
        if listed.kind != Kind::Capped || round == 0 {
            return Ok(0);
        }
        let (source, target) = (&mut self.source, &mut self.target);
        match compare::difference(source, target, &listed.ns, &entry.ns, Kind::Capped)? {
            None => Ok(0),
            Some(_) => {
                let newest = self.newest()?;
                self.copy_all(listed.uuid, newest)?;
                Ok(1)
            }
        }
    }

    fn align_views(&mut self, listed: &[Listed]) -> Result<()> {
        let mut present = listing::all(&mut self.target, &self.filter)?;
        present.retain(|listed| self.filter.covers(&listed.ns.db, &listed.ns.name));
        alter::views(&mut self.target, listed, &present)
    }

    /// Compares both sides: the names, indexes and counts, or all documents with `verify`.
    fn compare(&mut self, listed: &[Listed], verify: bool) -> Result<String> {
        let (mut documents, mut differences) = (0, Vec::new());
        let mut present = listing::all(&mut self.target, &self.filter)?;
        present.retain(|listed| self.filter.covers(&listed.ns.db, &listed.ns.name));
        for surplus in present.iter().filter(|p| !listed.iter().any(|l| l.ns == p.ns)) {
            differences.push(format!("{} is only at the target", surplus.ns));
        }
        for listed in listed {
            let there = present.iter().find(|p| p.ns == listed.ns && p.kind == listed.kind);
            let Some(there) = there else {
                differences.push(format!("{} is only at the source", listed.ns));
                continue;
            };
            if listed.kind == Kind::View {
                continue;
            }
            let (source, target) = (&mut self.source, &mut self.target);
            let wanted = listing::indexes(source, &listed.ns)?;
            if !alter::is_same(&wanted, &listing::indexes(target, &listed.ns)?) {
                differences.push(format!("{} has other indexes", listed.ns));
            }
            let options = alter::changed(listed.options.as_doc(), there.options.as_doc());
            if listed.kind.is_watched() && options.as_doc().count() > 0 {
                differences.push(format!("{} has other options", listed.ns));
            }
            let ns = stored(&listed.ns, listed.kind);
            let (here, there) = (base::count(source, &ns)?, base::count(target, &ns)?);
            documents += here;
            let difference = match (here == there, verify) {
                (false, _) => {
                    Some(format!("{here} documents at the source, {there} at the target"))
                }
                (true, false) => None,
                (true, true) => compare::difference(source, target, &ns, &ns, listed.kind)?,
            };
            differences.extend(difference.map(|text| format!("{}: {text}", listed.ns)));
        }
        match differences.is_empty() {
            true => {
                let compared = if verify { "all documents" } else { "counts and indexes" };
                let count = listed.len();
                Ok(format!(
                    "copied {count} collections and views with {documents} documents; {compared} compared"
                ))
            }
            false => Err(Trouble::Failed(format!(
                "the target differs from the source:\n{}",
                differences.join("\n")
            ))),
        }
    }
}
