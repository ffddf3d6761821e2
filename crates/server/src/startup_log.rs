//! `local.startup_log` and `local.nagi.backups`: one document for each start of the server, and for each complete
//! backup by `nagi backup`, for administrators.

use nagi_bson::{DocBuf, Value, doc};
use nagi_error::Result;
use nagi_lang::time::Zone;
use nagi_store::{Namespace, WriteOptions};

use crate::backup::Complete;
use crate::clock;
use crate::commands::write_build_info;
use crate::core::server::Server;

/// The size of the capped collection.
const LOG_BYTES_MAX: i32 = 10 << 20;
/// The number of recorded backups that are read at the start.
const BACKUPS_READ_MAX: usize = 1000;

impl Server {
    /// Writes the document of this start. Must be called once, before clients can connect. A failure is logged and does
    /// not prevent the start.
    pub fn record_start(&self, zone: &Zone) {
        let ms = clock::wall_ms();
        let config = &self.config;
        let entry = DocBuf::build(|out| {
            out.put("_id", format!("{}-{ms}", config.host).as_str());
            out.put("hostname", config.host.as_str());
            out.put("startTime", Value::DateTime(ms));
            out.put("startTimeLocal", local_time(ms, zone).as_str());
            out.put("cmdLine", &config.parsed_options);
            out.put("pid", i64::from(std::process::id()));
            out.doc("buildinfo", |out| write_build_info(self, out));
        });
        if let Err(error) = self.append_local("startup_log", &entry) {
            log::warn!(target: "STORAGE", id = 8_200_050, error = error.message();
                "The start cannot be recorded in local.startup_log");
        }
        match self.newest_backup() {
            Ok(Some(ended_ms)) => self.upkeep.backups.note_newest(ended_ms),
            Ok(None) => {}
            Err(error) => log::warn!(target: "STORAGE", id = 8_200_365, error = error.message();
                "local.nagi.backups cannot be read"),
        }
    }

    /// Writes the document of a complete backup. A failure is logged: the backup is complete nevertheless.
    pub(crate) fn record_backup(&self, complete: &Complete) {
        let ended_ms = clock::wall_ms();
        self.upkeep.backups.note_newest(ended_ms);
        let entry = DocBuf::build(|out| {
            out.put("_id", Value::DateTime(ended_ms));
            out.put("beginTime", Value::DateTime(complete.begun_ms));
            out.put("endTime", Value::DateTime(ended_ms));
            out.put("files", complete.file_count as i64);
            out.put("bytes", complete.byte_count as i64);
        });
        if let Err(error) = self.append_local("nagi.backups", &entry) {
            log::warn!(target: "STORAGE", id = 8_200_366, error = error.message();
                "The backup cannot be recorded in local.nagi.backups");
        }
    }

    /// When the newest recorded backup ended. A time in the future, as after the clock was set back, is not believed:
    /// if there are no others, the backup counts as one of now.
    fn newest_backup(&self) -> Result<Option<i64>> {
        let named = self.store.collection(&Namespace::new("local", "nagi.backups")?);
        let Some(collection) = named.filter(|named| !named.is_view()) else {
            return Ok(None);
        };
        let snapshot = self.store.snapshot()?;
        let mut cursor = snapshot.reader().scan(&collection, false)?;
        let (now, mut newest) = (clock::wall_ms(), None);
        for _ in 0..BACKUPS_READ_MAX {
            if !cursor.advance()? {
                break;
            }
            match cursor.doc().get("endTime") {
                Value::DateTime(ms) if ms <= now => return Ok(Some(ms)),
                Value::DateTime(_) => newest = Some(now),
                // Somebody else's document.
                _ => {}
            }
        }
        Ok(newest)
    }

    fn append_local(&self, name: &str, entry: &DocBuf) -> Result<()> {
        let namespace = Namespace::new("local", name)?;
        if self.store.collection(&namespace).is_none() {
            let options = doc! { "capped": true, "size": LOG_BYTES_MAX };
            self.store.create_collection(&namespace, options.as_doc())?;
        }
        self.store.write(WriteOptions::default(), &mut |txn| match txn.collection(&namespace) {
            Some(collection) => txn.insert(&collection, entry.as_doc()).map(drop),
            None => Ok(()),
        })?;
        Ok(())
    }
}

/// A time in the format of C's `ctime`, with milliseconds: `Tue Mar  3 10:11:53.123`.
fn local_time(ms: i64, zone: &Zone) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let local = ms + zone.offset_at(ms) * 1000;
    let mut iso = String::new();
    clock::write_iso(&mut iso, local);
    let number = |from: usize| iso.get(from..from + 2).and_then(|n| n.parse().ok()).unwrap_or(1);
    let (month, day): (usize, usize) = (number(5), number(8));
    let weekday = DAYS[local.div_euclid(86_400_000).rem_euclid(7) as usize];
    let name = MONTHS[(month.max(1) - 1).min(11)];
    format!("{weekday} {name} {day:>2} {}", iso.get(11..23).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_are_those_of_ctime() {
        let shown = |ms, zone| local_time(ms, &Zone::parse(zone).unwrap());
        assert_eq!(shown(0, "UTC"), "Thu Jan  1 00:00:00.000");
        assert_eq!(shown(-1, "UTC"), "Wed Dec 31 23:59:59.999");
        assert_eq!(shown(1_709_164_800_123, "America/New_York"), "Wed Feb 28 19:00:00.123");
    }
}
