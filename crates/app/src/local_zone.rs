//! The machine's time zone by name: from `TZ`, or from the target of the link `/etc/localtime`.

use nagi_server::Zone;

const FILE: &str = "/etc/localtime";
const FOLDER: &str = "zoneinfo/";

/// The local time zone; UTC if its name is not known.
pub(crate) fn find() -> Zone {
    let chosen = std::env::var("TZ").ok();
    let linked = || std::fs::read_link(FILE).ok()?.to_str().map(str::to_owned);
    named(chosen.or_else(linked).as_deref())
}

/// Parses a name, or the path of a file of the time zone database; `TZ` may begin with a colon.
fn named(text: Option<&str>) -> Zone {
    let text = text.unwrap_or("").trim_start_matches(':');
    let name = text.rsplit_once(FOLDER).map_or(text, |(_, name)| name);
    Zone::parse(name).unwrap_or(Zone::Utc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths() {
        let offset = |text| named(text).offset_at(0);
        assert_eq!(offset(Some("America/New_York")), -5 * 3600);
        assert_eq!(offset(Some(":/usr/share/zoneinfo/Asia/Kolkata")), 19_800);
        assert_eq!(offset(Some("../usr/share/zoneinfo/Etc/UTC")), 0);
        assert_eq!((offset(None), offset(Some("")), offset(Some("no/such"))), (0, 0, 0));
    }
}
