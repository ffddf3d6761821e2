//! `$sample`: a number of distinct documents picked at random (reservoir sampling).

use super::{numbers, prelude::*};
use crate::source::{self, Random};

pub(super) static SAMPLE: StageSpec = StageSpec { name: "$sample", parse, ..StageSpec::ROW };

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
        Box::new(Running {
            input,
            size: self.size,
            picked: Vec::new(),
            random: Random::new(),
            value: 1.0,
            current: None,
        })
    }

    fn step(&self) -> Step<'_> {
        Step::Sample(self.size)
    }

    fn explain(&self, out: &mut DocWriter<'_>) {
        out.doc("$sample", |out| out.put("size", self.size as i64));
    }
}

struct Running {
    input: Box<dyn Source>,
    size: u64,
    /// Documents with their metadata.
    picked: Vec<Vec<u8>>,
    random: Random,
    /// The random value of the current document. The values decrease, as if documents were sorted by them.
    value: f64,
    /// The current document with its metadata; none until the input is read.
    current: Option<Vec<u8>>,
}

impl Running {
    fn fill(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let random = &mut self.random;
        let mut seen = 0;
        while self.input.advance(cx)? {
            seen += 1;
            if (self.picked.len() as u64) < self.size {
                let mut bytes = Vec::new();
                source::serialize(&*self.input, &mut bytes);
                self.picked.push(bytes);
            } else {
                let at = random.below(seen);
                if at < self.size {
                    let bytes = &mut self.picked[at as usize];
                    bytes.clear();
                    source::serialize(&*self.input, bytes);
                }
            }
        }
        for at in (1..self.picked.len()).rev() {
            self.picked.swap(at, random.below(at as u64 + 1) as usize);
        }
        Ok(())
    }

    /// The next picked document, with the greatest random value of those left.
    fn next(&mut self) -> Option<Vec<u8>> {
        let left = self.picked.len();
        let mut bytes = self.picked.pop()?;
        self.value *= self.random.value().powf(1.0 / left as f64);
        let meta = DocBuf::build(|out| {
            let others = source::metadata(&bytes);
            others.iter().filter(|e| e.name() != "randVal").for_each(|e| out.put_element(e));
            out.put("randVal", self.value);
        });
        bytes.truncate(source::document(&bytes).len());
        bytes.extend_from_slice(meta.as_bytes());
        Some(bytes)
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if self.current.is_none() {
            self.fill(cx)?;
            self.current = Some(Vec::new());
        }
        cx.pass()?;
        let Some(next) = self.next() else { return Ok(false) };
        self.current = Some(next);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        self.current.as_deref().map_or(Doc::EMPTY, source::document)
    }

    fn meta(&self) -> Doc<'_> {
        self.current.as_deref().map_or(Doc::EMPTY, source::metadata)
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }

    fn restore(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.current.is_some() { Ok(()) } else { self.input.restore(cx) }
    }
}
