//! `encryption.keys`: the generations of a data directory, wrapped by the master key.
//!
//! ```text
//!      0   8  "NagiKeys"
//!      8   4  version, 1
//!     12   4  number of generations, 1 to 4096
//!     16  16  id of the directory's keys, random
//!     32  16  id of the master key
//!     48   2  length of the master key's name
//!     50   n  the name: what a KMIP server calls the key, else empty
//!  each generation, the number of the first one is 1:
//!          8  number
//!          8  time of creation, in seconds since 1970
//!         12  nonce of the wrapping
//!         32  wrapped key
//!         16  tag; associated data: the bytes before the generations, number, time
//!  at the end:
//!          4  CRC-32C of the bytes before
//! ```
//! Numbers are little endian. The associated data contains the number of generations, so none can be taken away.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::KeysError;
use crate::header::part;
use crate::master::{MasterKey, NAME_BYTES_MAX, hex};
use crate::replace::{Step, replace};
use crate::seal::{self, KEY_BYTES, NONCE_BYTES, Secret, TAG_BYTES};

/// The name of the file in the data directory.
pub const FILE_NAME: &str = "encryption.keys";

const MAGIC: &[u8; 8] = b"NagiKeys";
const VERSION: u32 = 1;
/// More than a rotation a day in ten years.
pub(crate) const GENERATIONS_MAX: usize = 4096;
const FIXED_BYTES: usize = 50;
const PLAIN_BYTES: usize = 16;
const GENERATION_BYTES: usize = PLAIN_BYTES + NONCE_BYTES + KEY_BYTES + TAG_BYTES;
const CHECKSUM_BYTES: usize = 4;
const FILE_BYTES_MAX: usize =
    FIXED_BYTES + NAME_BYTES_MAX + GENERATIONS_MAX * GENERATION_BYTES + CHECKSUM_BYTES;

/// A generation: the key that wraps the data keys of new files, or of old ones.
#[derive(Clone)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) created_secs: u64,
    pub(crate) key: Secret,
}

/// The unwrapped content.
pub(crate) struct Content {
    /// Tells the files of one data directory from those of another.
    pub(crate) id: [u8; 16],
    /// Ascending; at least one.
    pub(crate) generations: Vec<Generation>,
}

/// What the file tells without a master key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The id of the master key that is needed.
    pub master_key_id: String,
    /// What the KMIP server calls it; empty if it is from elsewhere.
    pub master_key_name: String,
    /// The number of generations.
    pub generations: usize,
    /// The time of the newest generation, in seconds since 1970.
    pub newest_secs: u64,
}

/// What the file of a data directory tells without a master key; `None` if there is no such file.
///
/// # Errors
/// If it cannot be read or is damaged.
pub fn summary(folder: &Path) -> Result<Option<Summary>, KeysError> {
    let Some(bytes) = read(folder)? else { return Ok(None) };
    let parsed = parse(&bytes).map_err(|problem| problem.at(folder))?;
    let newest = parsed.generations.last().map_or(0, |entry| u64::from_le_bytes(part(entry, 8)));
    Ok(Some(Summary {
        master_key_id: hex(&parsed.master_key_id),
        master_key_name: parsed.name.to_owned(),
        generations: parsed.generations.len(),
        newest_secs: newest,
    }))
}

/// Reads and unwraps the keys; `None` if there is no such file.
pub(crate) fn load(folder: &Path, master: &MasterKey) -> Result<Option<Content>, KeysError> {
    let Some(bytes) = read(folder)? else { return Ok(None) };
    let damaged = |what| Problem::Damaged(what).at(folder);
    let parsed = parse(&bytes).map_err(|problem| problem.at(folder))?;
    if parsed.master_key_id != master.id_bytes() {
        return Err(KeysError::WrongMasterKey {
            path: folder.join(FILE_NAME),
            needed: hex(&parsed.master_key_id),
            given: master.id(),
        });
    }
    let mut generations = Vec::with_capacity(parsed.generations.len());
    for (entry, expected) in parsed.generations.iter().zip(1..) {
        let number = u64::from_le_bytes(part(entry, 0));
        let mut key = Secret::new(part(entry, PLAIN_BYTES + NONCE_BYTES));
        let associated = [parsed.head, &entry[..PLAIN_BYTES]].concat();
        let tag: [u8; TAG_BYTES] = part(entry, PLAIN_BYTES + NONCE_BYTES + KEY_BYTES);
        let nonce: [u8; NONCE_BYTES] = part(entry, PLAIN_BYTES);
        if !seal::unseal(master.wrapping(), &associated, nonce, tag, &mut key[..]) {
            return Err(damaged("a key cannot be unwrapped"));
        }
        if number != expected {
            return Err(damaged("its generations are not in order"));
        }
        generations.push(Generation {
            number,
            created_secs: u64::from_le_bytes(part(entry, 8)),
            key,
        });
    }
    Ok(Some(Content { id: parsed.id, generations }))
}

/// Wraps the keys and replaces the file.
pub(crate) fn store(
    folder: &Path,
    content: &Content,
    master: &MasterKey,
    before: &dyn Fn(Step) -> io::Result<()>,
) -> Result<(), KeysError> {
    let bytes = encode(content, master)?;
    replace(folder, FILE_NAME, &bytes, before)
        .map_err(|error| KeysError::Io(folder.join(FILE_NAME), error))
}

fn encode(content: &Content, master: &MasterKey) -> Result<Vec<u8>, KeysError> {
    let name = master.name().as_bytes();
    let mut bytes = Vec::with_capacity(FIXED_BYTES + name.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(content.generations.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&content.id);
    bytes.extend_from_slice(&master.id_bytes());
    bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
    bytes.extend_from_slice(name);
    let head = bytes.clone();
    for generation in &content.generations {
        let mut plain = [0; PLAIN_BYTES];
        plain[..8].copy_from_slice(&generation.number.to_le_bytes());
        plain[8..].copy_from_slice(&generation.created_secs.to_le_bytes());
        // Encrypted in place, so no copy of the key remains.
        let mut key = generation.key.clone();
        let associated = [&head[..], &plain].concat();
        let (nonce, tag) = seal::seal(master.wrapping(), &associated, &mut key[..])?;
        bytes.extend_from_slice(&plain);
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&key[..]);
        bytes.extend_from_slice(&tag);
    }
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

/// The whole file; `None` if there is none. It is small, and a larger one is no such file.
fn read(folder: &Path) -> Result<Option<Vec<u8>>, KeysError> {
    let path = folder.join(FILE_NAME);
    // A pipe would wait for a writer.
    if path.metadata().is_ok_and(|about| !about.is_file()) {
        return Err(Problem::Damaged("it is not a regular file").at(folder));
    }
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(KeysError::Io(path, error)),
    };
    let mut bytes = Vec::new();
    let limit = FILE_BYTES_MAX as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(|error| KeysError::Io(path, error))?;
    Ok(Some(bytes))
}

struct Parsed<'b> {
    head: &'b [u8],
    id: [u8; 16],
    master_key_id: [u8; 16],
    name: &'b str,
    generations: Vec<&'b [u8]>,
}

enum Problem {
    Damaged(&'static str),
    Newer(u32),
}

impl Problem {
    fn at(self, folder: &Path) -> KeysError {
        let path = folder.join(FILE_NAME);
        match self {
            Problem::Damaged(what) => KeysError::DamagedKeys(path, what),
            Problem::Newer(version) => KeysError::NewerKeys(path, version),
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Parsed<'_>, Problem> {
    use Problem::Damaged;
    if bytes.len() < FIXED_BYTES + GENERATION_BYTES + CHECKSUM_BYTES {
        return Err(Damaged("it is too short"));
    }
    if !bytes.starts_with(MAGIC) {
        return Err(Damaged("it begins otherwise"));
    }
    let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if crc32c::crc32c(content) != u32::from_le_bytes(part(checksum, 0)) {
        return Err(Damaged("its checksum differs"));
    }
    match u32::from_le_bytes(part(content, 8)) {
        VERSION => {}
        newer => return Err(Problem::Newer(newer)),
    }
    let count = u32::from_le_bytes(part(content, 12)) as usize;
    let name_bytes = usize::from(u16::from_le_bytes(part(content, FIXED_BYTES - 2)));
    let head_bytes = FIXED_BYTES + name_bytes;
    let fits = (1..=GENERATIONS_MAX).contains(&count)
        && name_bytes <= NAME_BYTES_MAX
        && content.len() == head_bytes + count * GENERATION_BYTES;
    if !fits {
        return Err(Damaged("its lengths do not fit"));
    }
    let (head, generations) = content.split_at(head_bytes);
    let name =
        str::from_utf8(&head[FIXED_BYTES..]).map_err(|_| Damaged("the key's name is no text"))?;
    Ok(Parsed {
        head,
        id: part(content, 16),
        master_key_id: part(content, 32),
        name,
        generations: generations.chunks_exact(GENERATION_BYTES).collect(),
    })
}
