//! The first bytes of each encrypted file: its data key and nonce, wrapped by a generation.
//!
//! ```text
//!      0   8  "NagiFile"
//!      8   4  version, 1
//!     12   4  cipher: 1, AES-256 in counter mode
//!     16   8  generation of the key that wraps; 0: the master key itself
//!     24  16  id of the directory's keys, or of the master key
//!     40  12  nonce of the wrapping
//!     52  32  wrapped: the data key
//!     84   8  wrapped: the nonce of the content
//!     92  16  tag of the wrapping; associated data: bytes 0 to 40
//!    108      zeros
//!   4092   4  CRC-32C of the bytes before
//! ```
//! Numbers are little endian. The size is that of a page, so that content stays aligned for direct I/O.

use zeroize::Zeroize;

use crate::cipher::{FILE_NONCE_BYTES, FileCipher};
use crate::error::KeysError;
use crate::seal::{self, KEY_BYTES, NONCE_BYTES, Secret, TAG_BYTES};

/// True if a file begins as an encrypted one does.
pub fn is_encrypted(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC)
}

/// Bytes of the header of an encrypted file.
pub const HEADER_BYTES: usize = 4096;

const MAGIC: &[u8; 8] = b"NagiFile";
const VERSION: u32 = 1;
const AES_256_CTR: u32 = 1;

const GENERATION_AT: usize = 16;
const ID_AT: usize = 24;
const NONCE_AT: usize = 40;
const WRAPPED_AT: usize = 52;
const TAG_AT: usize = WRAPPED_AT + KEY_BYTES + FILE_NONCE_BYTES;
const END: usize = TAG_AT + TAG_BYTES;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// The bytes at a position that is within a header by its constants.
pub(crate) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Makes a data key and its header.
pub(crate) fn create(
    id: [u8; 16],
    generation: u64,
    wrapping: &Secret,
) -> Result<(Box<[u8; HEADER_BYTES]>, FileCipher), KeysError> {
    let key = seal::random::<KEY_BYTES>()?;
    let nonce = *seal::random::<FILE_NONCE_BYTES>()?;
    let mut header = Box::new([0; HEADER_BYTES]);
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&AES_256_CTR.to_le_bytes());
    header[GENERATION_AT..ID_AT].copy_from_slice(&generation.to_le_bytes());
    header[ID_AT..NONCE_AT].copy_from_slice(&id);
    header[WRAPPED_AT..WRAPPED_AT + KEY_BYTES].copy_from_slice(&key[..]);
    header[WRAPPED_AT + KEY_BYTES..TAG_AT].copy_from_slice(&nonce);
    let (fields, rest) = header.split_at_mut(NONCE_AT);
    let wrapped = &mut rest[WRAPPED_AT - NONCE_AT..TAG_AT - NONCE_AT];
    let (wrapping_nonce, tag) = seal::seal(wrapping, fields, wrapped)?;
    header[NONCE_AT..WRAPPED_AT].copy_from_slice(&wrapping_nonce);
    header[TAG_AT..END].copy_from_slice(&tag);
    let checksum = crc32c::crc32c(&header[..CHECKSUM_AT]);
    header[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    Ok((header, FileCipher::new(&key, nonce)))
}

/// Checks a header without its key; returns the generation that it needs.
pub(crate) fn check(id: [u8; 16], header: &[u8]) -> Result<u64, KeysError> {
    let header = header.get(..HEADER_BYTES).ok_or(KeysError::DamagedHeader("it is too short"))?;
    if !header.starts_with(MAGIC) {
        return Err(KeysError::DamagedHeader("it is not one"));
    }
    let checksum = u32::from_le_bytes(part(header, CHECKSUM_AT));
    if crc32c::crc32c(&header[..CHECKSUM_AT]) != checksum {
        return Err(KeysError::DamagedHeader("its checksum differs"));
    }
    match u32::from_le_bytes(part(header, 8)) {
        VERSION => {}
        newer => return Err(KeysError::NewerHeader(newer)),
    }
    if u32::from_le_bytes(part(header, 12)) != AES_256_CTR {
        return Err(KeysError::DamagedHeader("its cipher is unknown"));
    }
    if part::<16>(header, ID_AT) != id {
        return Err(KeysError::ForeignFile);
    }
    Ok(u64::from_le_bytes(part(header, GENERATION_AT)))
}

/// The cipher of a checked header.
pub(crate) fn open(header: &[u8], wrapping: &Secret) -> Result<FileCipher, KeysError> {
    let mut wrapped: [u8; KEY_BYTES + FILE_NONCE_BYTES] = part(header, WRAPPED_AT);
    let (nonce, tag) = (part::<NONCE_BYTES>(header, NONCE_AT), part(header, TAG_AT));
    let fields = header.get(..NONCE_AT).unwrap_or_default();
    if !seal::unseal(wrapping, fields, nonce, tag, &mut wrapped) {
        return Err(KeysError::DamagedHeader("its key cannot be unwrapped"));
    }
    let key = Secret::new(part(&wrapped, 0));
    let cipher = FileCipher::new(&key, part(&wrapped, KEY_BYTES));
    wrapped.zeroize();
    Ok(cipher)
}
