//! Stamps and the timestamps of the store's oracle, which are the same times in two forms.
//!
//! ```text
//!   oracle   milliseconds since 1970 (46 bits)   number (18 bits)
//!   stamp    seconds since 1970 (32 bits)        milliseconds, number, plus 1 (32 bits, 28 of them used)
//! ```
//!
//! The conversion keeps the order and loses nothing. One is added because a cluster time whose lower half is zero
//! means "before this second".

use nagi_kv::CommitStamp;

const NUMBER_BITS: u32 = 18;

/// The time of a timestamp in milliseconds since 1970, by the clock of a placement driver.
pub(crate) fn millis_of(version: u64) -> u64 {
    version >> NUMBER_BITS
}

/// The timestamp of a time.
pub(crate) fn version_at(millis: u64) -> u64 {
    millis << NUMBER_BITS
}

/// The stamp of a timestamp.
pub(crate) fn stamp_of(version: u64) -> CommitStamp {
    let (millis, number) = (version >> NUMBER_BITS, version & ((1 << NUMBER_BITS) - 1));
    CommitStamp((millis / 1000) << 32 | (((millis % 1000) << NUMBER_BITS | number) + 1))
}

/// The greatest timestamp whose stamp is not greater than this one.
pub(crate) fn version_of(stamp: CommitStamp) -> u64 {
    let seconds = (stamp.0 >> 32) * 1000;
    match (stamp.0 & u64::from(u32::MAX)).checked_sub(1) {
        Some(within) => {
            let millis = (within >> NUMBER_BITS).min(999);
            let number = if within >> NUMBER_BITS > 999 { u64::MAX } else { within };
            (seconds + millis) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1)
        }
        None => (seconds << NUMBER_BITS).saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_keep_the_order_and_come_back() {
        let base = 1_700_000_000_999_u64 << NUMBER_BITS;
        let all = [
            0,
            1,
            base,
            base + 1,
            base | 0x3_ffff,
            (base >> 18 << 18) + (1 << 18),
            4_000_000_000_000 << 18,
        ];
        for pair in all.windows(2) {
            assert!(stamp_of(pair[0]) < stamp_of(pair[1]), "{pair:?}");
        }
        for version in all {
            assert_eq!(version_of(stamp_of(version)), version);
        }
        assert_eq!(stamp_of(base).0 >> 32, 1_700_000_000);
    }

    #[test]
    fn stamps_between_timestamps_are_rounded_down() {
        let second = 1_700_000_000_u64;
        let before = version_of(CommitStamp(second << 32));
        assert!(stamp_of(before).0 < second << 32);
        assert_eq!(before + 1, (second * 1000) << NUMBER_BITS);
        let end = version_of(CommitStamp(second << 32 | u64::from(u32::MAX)));
        assert_eq!(end + 1, ((second + 1) * 1000) << NUMBER_BITS);
    }
}
