//! Compression of the blocks of a space.

use crate::Space;

/// A compressor of stored data. The numbers are written to disk and never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Compressor {
    None = 0,
    Snappy = 1,
    Zlib = 2,
    Zstd = 3,
    Lz4 = 4,
}

impl Compressor {
    /// All of them, in the order of their numbers.
    pub const ALL: [Compressor; 5] =
        [Compressor::None, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd, Compressor::Lz4];

    /// The name in options and in `creationString`.
    pub fn name(self) -> &'static str {
        match self {
            Compressor::None => "none",
            Compressor::Snappy => "snappy",
            Compressor::Zlib => "zlib",
            Compressor::Zstd => "zstd",
            Compressor::Lz4 => "lz4",
        }
    }

    /// The compressor with this name.
    pub fn by_name(name: &str) -> Option<Compressor> {
        Compressor::ALL.into_iter().find(|compressor| compressor.name() == name)
    }

    /// The compressor with this number.
    pub fn by_number(number: u8) -> Option<Compressor> {
        Compressor::ALL.get(usize::from(number)).copied()
    }

    /// The space of records with this compressor.
    pub fn space(self) -> Space {
        match self {
            Compressor::None => Space::RecordsNone,
            Compressor::Snappy => Space::RecordsSnappy,
            Compressor::Zlib => Space::RecordsZlib,
            Compressor::Zstd => Space::RecordsZstd,
            Compressor::Lz4 => Space::RecordsLz4,
        }
    }

    /// The compressor of a space; none if the engine chooses it.
    pub fn of_space(space: Space) -> Option<Compressor> {
        Compressor::ALL.into_iter().find(|compressor| compressor.space() == space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_spaces_lead_back() {
        for compressor in Compressor::ALL {
            assert_eq!(Compressor::by_name(compressor.name()), Some(compressor));
            assert_eq!(Compressor::by_number(compressor as u8), Some(compressor));
            assert_eq!(Compressor::of_space(compressor.space()), Some(compressor));
        }
        assert_eq!((Compressor::by_name("lzo"), Compressor::by_number(5)), (None, None));
        assert_eq!(Compressor::of_space(Space::Records), None);
    }
}
