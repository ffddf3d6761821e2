//! `$sample`: a number of documents picked at random, each at most once (reservoir sampling).

use std::hash::{BuildHasher, RandomState};

use super::{numbers, prelude::*};

pub(super) static SAMPLE: StageSpec = StageSpec { name: "$sample", place: Place::Anywhere, parse };

struct Sample {
    size: u64,
}

fn parse(spec: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    let Value::Doc(doc) = spec else {
        bail!(Code::Location(28745), "the $sample stage specification must be an object");
    };
    let mut size = None;
    for element in doc {
        if element.name() != "size" {
            bail!(Code::Location(28748), "unrecognized option to $sample: {}", element.name());
        }
        let value = element.value();
        let Some(number) = numbers::whole(value) else {
            bail!(Code::Location(28746), "size argument to $sample must be a number");
        };
        if number < 0 || nagi_bson::number::is_nan(value) {
            bail!(Code::Location(28747), "size argument to $sample must not be negative");
        }
        size = Some(number as u64);
    }
    match size {
        Some(size) => Ok(Box::new(Sample { size })),
        None => bail!(Code::Location(28749), "$sample stage must specify a size"),
    }
}

impl Stage for Sample {
    fn open(&self, input: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Running { input, size: self.size, picked: Vec::new(), current: None })
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.doc("$sample", |out| out.put("size", self.size as i64));
    }
}

struct Running {
    input: Box<dyn Source>,
    size: u64,
    picked: Vec<DocBuf>,
    /// The current document; none while the input is unread.
    current: Option<DocBuf>,
}

/// A small generator of random numbers (xorshift64*), seeded by the system's randomness.
struct Random(u64);

impl Random {
    fn new() -> Random {
        Random(RandomState::new().hash_one(0x5AFE_u64) | 1)
    }

    /// Below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % end.max(1)
    }
}

impl Running {
    fn fill(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let mut random = Random::new();
        let mut seen = 0;
        while self.input.advance(cx)? {
            seen += 1;
            let doc = self.input.doc();
            if (self.picked.len() as u64) < self.size {
                self.picked.push(doc.to_buf());
            } else {
                let at = random.below(seen);
                if at < self.size {
                    self.picked[at as usize] = doc.to_buf();
                }
            }
        }
        for at in (1..self.picked.len()).rev() {
            self.picked.swap(at, random.below(at as u64 + 1) as usize);
        }
        Ok(())
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.current.is_none() {
            self.fill(cx)?;
            self.current = Some(DocBuf::new());
        }
        let Some(next) = self.picked.pop() else { return Ok(false) };
        self.current = Some(next);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        self.current.as_ref().map_or(Doc::EMPTY, DocBuf::as_doc)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.current.is_some() { Ok(()) } else { self.input.restore(cx) }
    }
}
