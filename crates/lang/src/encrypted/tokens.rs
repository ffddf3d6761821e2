//! Tokens: HMAC-SHA-256 for deriving them, AES-256 in counter mode for encrypting with them.

use aes::{Aes256, Block, cipher::BlockCipherEncrypt, cipher::KeyInit as _};
use hmac::{Hmac, Mac};
use sha2::Sha256;

pub const TOKEN_BYTES: usize = 32;

/// A key that is derived from another key, and possibly from a value.
pub type Token = [u8; TOKEN_BYTES];

const IV_BYTES: usize = 16;

fn hash(token: &Token, numbers: &[u64]) -> Token {
    let mut mac = <Hmac<Sha256>>::new_from_slice(token).expect("HMAC takes keys of any length");
    numbers.iter().for_each(|number| mac.update(&number.to_le_bytes()));
    mac.finalize().into_bytes().into()
}

/// The token of a number, which is hashed as 8 bytes in little endian.
pub fn derive(token: &Token, number: u64) -> Token {
    hash(token, &[number])
}

/// The two tokens by which the documents of one value in the state collection ESC are found and read.
#[derive(Clone)]
pub struct EscTokens {
    pub tag: Token,
    pub value: Token,
}

impl EscTokens {
    /// Derives them from the token of a value and a contention factor.
    pub fn of(token: &Token) -> EscTokens {
        EscTokens { tag: derive(token, 1), value: derive(token, 2) }
    }
}

/// The `_id` of an anchor in the state collection ESC; of the null anchor for 0.
pub fn anchor_id(tag: &Token, anchor: u64) -> Token {
    hash(tag, &[0, anchor])
}

/// Appends `iv` and the ciphertext of `plain`, which is as long as `plain`. An IV may be used once with a token.
pub fn seal(token: &Token, iv: [u8; IV_BYTES], plain: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&iv);
    let at = out.len();
    out.extend_from_slice(plain);
    apply(token, iv, &mut out[at..]);
}

/// The two numbers, encrypted: 32 bytes.
pub fn seal_numbers(token: &Token, iv: [u8; IV_BYTES], numbers: [u64; 2]) -> [u8; 32] {
    let mut out = [0; 32];
    out[..16].copy_from_slice(&iv);
    out[16..24].copy_from_slice(&numbers[0].to_le_bytes());
    out[24..].copy_from_slice(&numbers[1].to_le_bytes());
    apply(token, iv, &mut out[16..]);
    out
}

/// The reverse of [`seal_numbers`]; none if the length is wrong.
pub fn open_numbers(token: &Token, sealed: &[u8]) -> Option<[u64; 2]> {
    let sealed: &[u8; 32] = sealed.try_into().ok()?;
    let (iv, rest) = sealed.split_first_chunk::<IV_BYTES>()?;
    let mut plain: [u8; 16] = rest.try_into().ok()?;
    apply(token, *iv, &mut plain);
    let (numbers, _) = plain.as_chunks::<8>();
    Some([u64::from_le_bytes(numbers[0]), u64::from_le_bytes(numbers[1])])
}

/// The token at the beginning of an encrypted text of 48, 49 or 51 bytes; none for another length.
pub fn open_token(token: &Token, sealed: &[u8]) -> Option<Token> {
    let (iv, rest) = sealed.split_first_chunk::<IV_BYTES>()?;
    if !matches!(rest.len(), TOKEN_BYTES | 33 | 35) {
        return None;
    }
    let mut plain: Token = rest[..TOKEN_BYTES].try_into().ok()?;
    apply(token, *iv, &mut plain);
    Some(plain)
}

/// Encrypts or decrypts in counter mode. The counter is the IV as a number in big endian.
fn apply(token: &Token, iv: [u8; IV_BYTES], data: &mut [u8]) {
    let cipher = Aes256::new(&(*token).into());
    let mut counter = u128::from_be_bytes(iv);
    for chunk in data.chunks_mut(IV_BYTES) {
        let mut block = Block::from(counter.to_be_bytes());
        cipher.encrypt_block(&mut block);
        chunk.iter_mut().zip(block.iter()).for_each(|(byte, key)| *byte ^= key);
        counter = counter.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    /// NIST SP 800-38A, F.5.5: the counter overflows its last byte.
    #[test]
    fn counter_mode_is_that_of_the_standard() {
        let key = bytes("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
        let iv = bytes("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
        let plain = bytes(
            "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52ef",
        );
        let sealed = bytes(
            "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c52b0930daa23de94ce87017ba2d84988d",
        );
        let (key, iv) = (key.try_into().expect("32"), iv.try_into().expect("16"));
        let mut out = Vec::new();
        seal(&key, iv, &plain, &mut out);
        assert_eq!(out[..16], iv);
        assert_eq!(out[16..], sealed);
    }

    /// libmongocrypt's test data (`tokens/mc.json`), from the tokens of a client on.
    #[test]
    fn tokens_are_those_of_libmongocrypt() {
        let token = |hex: &str| <Token>::try_from(bytes(hex)).expect("32 bytes");
        let (edc, esc, server) = (
            token("53eaa4c23a3ff65e6b7c7dbc4b1389cf0a6151b1ede5383a0673ff9c67855ff9"),
            token("acb3fab332131bbeaf112814f29ae0f2b10e97dc94b62db56c594661248e7467"),
            token("4a671dbf25d68b6c040a077dabb4e63869e03f4d466803609233b16356ec6d66"),
        );
        let contention = 1234567890;
        let with_factor = derive(&edc, contention);
        assert_eq!(
            with_factor,
            token("70fb9a3f760996f2f1438c5bf2a4d52bcba01b0badc3596276f49ffb2f0b136e")
        );
        assert_eq!(
            derive(&with_factor, 1),
            token("3643fd370e2719c03234cdeec787dfdc7d8fceecafa8a992e3c1f9d4d53449fe")
        );
        let tokens = EscTokens::of(&derive(&esc, contention));
        assert_eq!(
            tokens.tag,
            token("c73bc4ff5e70222c653140b2b4998b4d62db973f20f116f66ff811a9a907a78f")
        );
        assert_eq!(
            tokens.value,
            token("34150c6f5ab56dc39ddb935accb7f53e5276322fa937650b76a4dda9723d6fba")
        );
        assert_eq!(
            derive(&server, 1),
            token("a8c4a477e5518a527f718a5a1530919f2dad13b1f3559833e17b479711cbdbb9")
        );
        assert_eq!(
            derive(&server, 2),
            token("95fda1e139ef1dc84260d4d3ebaab7627a9676f4af7aeb1b596c7c14a0b3a2ea")
        );
    }

    #[test]
    fn what_is_sealed_can_be_opened() {
        let (token, iv) = ([7; 32], [0xFF; 16]);
        let sealed = seal_numbers(&token, iv, [3, u64::MAX]);
        assert_eq!(open_numbers(&token, &sealed), Some([3, u64::MAX]));
        assert_eq!(open_numbers(&token, &sealed[1..]), None);
        for extra in 0..5 {
            let mut out = Vec::new();
            seal(&token, iv, &[&[9; 32][..], &[1; 4][..extra]].concat(), &mut out);
            assert_eq!(
                open_token(&token, &out),
                matches!(extra, 0 | 1 | 3).then_some([9; 32]),
                "{extra} more"
            );
        }
        assert_eq!(open_token(&token, &[0; 15]), None);
    }
}
