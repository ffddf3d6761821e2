//! Generates synthetic events in the form of the Bluesky network: the same number gives the same event.
//!
//! Form and proportions follow the public stream that JSONBench loads: about half of all events are likes, the
//! activity of users is skewed, texts of posts have a few dozen words, and 99 of 100 events are commits.
use crate::random::{Random, Zipf};
use nagi_bson::{DocBuf, DocWriter};

/// The time of the first event in microseconds: 2024-11-21T16:00:00Z.
const BEGIN_US: i64 = 1_732_204_800_000_000;
/// Interval between events: a million events span a few hours.
const STEP_US: u64 = 24_000;
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz234567";
const LANGUAGES: [&str; 6] = ["en", "ja", "pt", "de", "es", "fr"];
const WORDS: [&str; 16] = [
    "calm", "sea", "evening", "wind", "harbour", "sail", "morning", "light", "rope", "tide",
    "gull", "stone", "mast", "rain", "cloud", "shore",
];
/// For 10,000 events: their number, collection and operation.
const COLLECTIONS: [(u64, &str, &str); 9] = [
    (4700, "app.bsky.feed.like", "create"),
    (6600, "app.bsky.feed.post", "create"),
    (8200, "app.bsky.graph.follow", "create"),
    (9000, "app.bsky.feed.repost", "create"),
    (9300, "app.bsky.graph.block", "create"),
    (9500, "app.bsky.feed.like", "delete"),
    (9700, "app.bsky.graph.follow", "delete"),
    (9850, "app.bsky.actor.profile", "update"),
    (10_000, "app.bsky.graph.listitem", "create"),
];

/// Generates events.
pub(super) struct Events {
    users: Zipf,
}

impl Events {
    pub(super) fn new(documents: u64) -> Events {
        // The real data set has about one user per three events.
        Events { users: Zipf::new((documents / 3).max(10)) }
    }

    /// The event with this number.
    pub(super) fn event(&self, number: u64) -> DocBuf {
        let mut random = Random::new(number + 1);
        // A few steps are skipped, because the first numbers of similar seeds are similar.
        for _ in 0..4 {
            random.next();
        }
        let did = format!("did:plc:{}", name(self.users.next(&mut random), 24));
        let at = BEGIN_US + (number * STEP_US + random.below(STEP_US)) as i64;
        let commit = random.below(100) > 0;
        let draw = random.below(10_000);
        let row = COLLECTIONS.iter().find(|row| draw < row.0).unwrap_or(&COLLECTIONS[0]);
        DocBuf::build(|out| {
            out.put("did", did.as_str());
            out.put("time_us", at);
            out.put("kind", if commit { "commit" } else { "identity" });
            if commit {
                out.doc("commit", |out| commit_into(out, &mut random, number, row));
                return;
            }
            out.doc("identity", |out| {
                out.put("did", did.as_str());
                out.put("handle", format!("{}.bsky.social", &did[8..16]).as_str());
                out.put("seq", number as i64);
            });
        })
    }
}

fn commit_into(
    out: &mut DocWriter<'_>,
    random: &mut Random,
    number: u64,
    (_, collection, operation): &(u64, &str, &str),
) {
    out.put("rev", name(number, 13).as_str());
    out.put("operation", *operation);
    out.put("collection", *collection);
    out.put("rkey", name(random.next(), 13).as_str());
    if *operation == "delete" {
        return;
    }
    out.doc("record", |out| {
        // Real events name this field `$type`, which FerretDB cannot store.
        out.put("type", *collection);
        out.put("createdAt", "2024-11-21T16:25:46.221Z");
        match *collection {
            "app.bsky.feed.post" => {
                out.array("langs", |list| {
                    list.push(LANGUAGES[random.below(LANGUAGES.len() as u64) as usize]);
                });
                out.put("text", text(random).as_str());
            }
            "app.bsky.feed.like" | "app.bsky.feed.repost" => out.doc("subject", |out| {
                out.put("cid", format!("bafyrei{}", name(random.next(), 52)).as_str());
                let (user, key) = (name(random.next(), 24), name(random.next(), 13));
                out.put("uri", format!("at://did:plc:{user}/app.bsky.feed.post/{key}").as_str());
            }),
            _ => out.put("subject", format!("did:plc:{}", name(random.next(), 24)).as_str()),
        }
    });
    out.put("cid", format!("bafyrei{}", name(random.next(), 52)).as_str());
}

/// Random letters; two seeds give the same name only by chance.
fn name(seed: u64, length: usize) -> String {
    let mut random = Random::new(seed ^ 0x000B_5C7E);
    (0..length).map(|_| char::from(LETTERS[random.below(32) as usize])).collect()
}

fn text(random: &mut Random) -> String {
    let words = 5 + random.below(30);
    let mut out = String::new();
    for _ in 0..words {
        out.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
        out.push(' ');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::Value;

    #[test]
    fn events_repeat_and_differ() {
        let events = Events::new(1000);
        assert_eq!(events.event(7).as_doc().as_bytes(), events.event(7).as_doc().as_bytes());
        let kinds: Vec<_> = (0..1000).map(|n| events.event(n)).collect();
        let commits = kinds.iter().filter(|e| e.as_doc().get("kind") == Value::String("commit"));
        assert!((970..=998).contains(&commits.count()));
        let mut users: Vec<_> = kinds
            .iter()
            .filter_map(|e| e.as_doc().get("did").as_str().map(str::to_owned))
            .collect();
        users.sort();
        users.dedup();
        assert!((100..=333).contains(&users.len()), "{}", users.len());
    }
}
