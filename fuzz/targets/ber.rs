//! BER for the target `ldap`: elements as a tree, changes of the tree, and a reader that shares nothing with the tested
//! one.

/// An element: its contents are bytes or elements.
#[derive(Clone)]
pub struct Element {
    tag: u8,
    contents: Contents,
}

#[derive(Clone)]
enum Contents {
    Bytes(Vec<u8>),
    Elements(Vec<Element>),
}

pub fn text(bytes: &[u8]) -> Element {
    Element { tag: 0x04, contents: Contents::Bytes(bytes.to_vec()) }
}

pub fn enumerated(value: u8) -> Element {
    Element { tag: 0x0A, contents: Contents::Bytes(vec![value]) }
}

pub fn parent(tag: u8, elements: Vec<Element>) -> Element {
    Element { tag, contents: Contents::Elements(elements) }
}

/// A message of LDAP.
pub fn message(id: u8, operation: Element) -> Element {
    let id = Element { tag: 0x02, contents: Contents::Bytes(vec![id]) };
    parent(0x30, vec![id, operation])
}

impl Element {
    pub fn bytes(&self) -> Vec<u8> {
        let contents = match &self.contents {
            Contents::Bytes(bytes) => bytes.clone(),
            Contents::Elements(all) => all.iter().flat_map(Element::bytes).collect(),
        };
        let mut out = vec![self.tag];
        match contents.len() {
            short @ 0..0x80 => out.push(short as u8),
            long => {
                out.push(0x84);
                out.extend_from_slice(&(long as u32).to_be_bytes());
            }
        }
        out.extend_from_slice(&contents);
        out
    }

    fn count(&self) -> usize {
        1 + match &self.contents {
            Contents::Bytes(_) => 0,
            Contents::Elements(all) => all.iter().map(Element::count).sum(),
        }
    }

    /// The element with this number, counted from the root.
    fn nth(&mut self, number: usize) -> &mut Element {
        if number == 0 {
            return self;
        }
        let Contents::Elements(all) = &mut self.contents else { unreachable!("counted") };
        let mut left = number - 1;
        for element in all {
            let count = element.count();
            if left < count {
                return element.nth(left);
            }
            left -= count;
        }
        unreachable!("the number is below the count")
    }
}

/// The most elements of a changed message: doubling is exponential.
const ELEMENTS_MAX: usize = 500;

/// Applies the changes of `input`, three bytes each: operation, element, value.
pub fn change(root: &mut Element, input: &[u8]) {
    for change in input.chunks_exact(3).take(16) {
        let (operation, number, value) = (change[0], usize::from(change[1]), change[2]);
        let count = root.count();
        let element = root.nth(number % count);
        match (operation % 8, &mut element.contents) {
            (0, _) => element.tag = value,
            (1, contents) => *contents = Contents::Elements(Vec::new()),
            (2, Contents::Elements(all)) if !all.is_empty() => {
                all.remove(usize::from(value) % all.len());
            }
            (3, Contents::Elements(all)) if !all.is_empty() && count < ELEMENTS_MAX => {
                let doubled = all[usize::from(value) % all.len()].clone();
                all.extend(std::iter::repeat_n(doubled, 1 + usize::from(value) / 16));
            }
            (4, Contents::Elements(all)) if !all.is_empty() => {
                let at = usize::from(value) % all.len();
                all.rotate_left(at);
            }
            (5, contents) => *contents = Contents::Bytes(vec![value; usize::from(value)]),
            (6, Contents::Bytes(bytes)) => bytes.push(value),
            (7, contents) => {
                // Deeper by some levels.
                let mut inner = Element { tag: element.tag, contents: contents.clone() };
                for _ in 0..value % 32 {
                    inner = parent(element.tag, vec![inner]);
                }
                *contents = Contents::Elements(vec![inner]);
            }
            (_, Contents::Bytes(bytes)) if !bytes.is_empty() => {
                let at = usize::from(value) % bytes.len();
                bytes[at] = bytes[at].wrapping_add(operation);
            }
            _ => {}
        }
    }
}

/// The tag, the contents and what follows.
fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if length >= 0x80 {
        let (digits, after) = rest.split_at_checked(length - 0x80)?;
        length = digits.iter().try_fold(0_usize, |sum, digit| {
            sum.checked_mul(256)?.checked_add(usize::from(*digit))
        })?;
        rest = after;
    }
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((*tag, contents, rest))
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.iter().try_fold(0_u64, |sum, byte| sum.checked_mul(256)?.checked_add(u64::from(*byte)))
}

/// Returns true if the bytes begin with a message of this id and operation with the result 0.
pub fn is_success(bytes: &[u8], id: u64, operation: u8) -> bool {
    let read = || {
        let (0x30, message, _) = split(bytes)? else { return None };
        let (0x02, found, rest) = split(message)? else { return None };
        let (tag, outcome, _) = split(rest)?;
        let (0x0A, code, _) = split(outcome)? else { return None };
        Some(number(found)? == id && tag == operation && !code.is_empty() && number(code)? == 0)
    };
    read() == Some(true)
}

/// The name in a bind request.
pub fn bound_name(request: &[u8]) -> Option<&[u8]> {
    let (0x30, message, _) = split(request)? else { return None };
    let (_, _, rest) = split(message)?;
    let (0x60, bind, _) = split(rest)? else { return None };
    let (_, _, rest) = split(bind)?;
    split(rest).map(|(_, name, _)| name)
}
