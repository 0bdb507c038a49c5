//! One read that fills the frames of pages that are neighbours in their file.
//!
//! **Invariants**: every frame of a run hears of its end, whatever becomes of the medium. A run that fails by a part of
//! the file is read again page by page, so that a page shares no such error with its neighbours. Where the file or its
//! store is the matter, all of them fail.

use std::io::IoSliceMut;
use std::sync::Arc;

use thermocline_medium::{Destination, Medium, MediumError, MediumFile, PendingRead, ReadAt};

use crate::device_meter::UnderWay;
use crate::frame::{Arrived, Frame, FrameMemory};
use crate::source::PagePlace;

/// Frames, in the order of the file, and the memory for all of them. Owns both while the medium reads.
pub(crate) struct ReadRun {
    medium: Arc<dyn Medium>,
    file: MediumFile,
    offset_bytes: u64,
    read_bytes: usize,
    /// Not empty until the read is over.
    frames: Vec<Arc<Frame>>,
    /// Parts for one or several of the frames each, in their order. Empty only when the read is over.
    memory: Vec<FrameMemory>,
    /// None before it is handed to the medium, when it is over, and if it is not metered.
    under_way: Option<UnderWay>,
}

impl ReadRun {
    /// A run of these frames, each of which lies behind the one before in the file, where `first` is the place of the
    /// first, and in the parts of `memory`.
    pub(crate) fn new(
        medium: &Arc<dyn Medium>,
        first: &PagePlace,
        frames: Vec<Arc<Frame>>,
        memory: Vec<FrameMemory>,
    ) -> Self {
        Self::at(Arc::clone(medium), first.file.clone(), first.offset_bytes, frames, memory)
    }

    fn at(
        medium: Arc<dyn Medium>,
        file: MediumFile,
        offset_bytes: u64,
        frames: Vec<Arc<Frame>>,
        memory: Vec<FrameMemory>,
    ) -> Self {
        // The last one's memory may be more than what its file has.
        let unread_bytes = frames.last().map_or(0, |last| last.held_bytes() - last.read_bytes());
        let held_bytes: u64 = frames.iter().map(|frame| frame.held_bytes()).sum();
        let read_bytes = (held_bytes - unread_bytes) as usize;
        Self { medium, file, offset_bytes, read_bytes, frames, memory, under_way: None }
    }

    /// In the order of the file.
    pub(crate) fn frames(&self) -> &[Arc<Frame>] {
        &self.frames
    }

    /// What the medium is asked for.
    pub(crate) fn into_read(mut self, under_way: Option<UnderWay>) -> ReadAt {
        self.under_way = under_way;
        ReadAt { file: self.file.clone(), offset_bytes: self.offset_bytes, read: Box::new(self) }
    }

    /// Each frame with its part of the memory. Memory of its own has one frame alone.
    fn parts(&mut self) -> Vec<(Arc<Frame>, FrameMemory)> {
        let frames = std::mem::take(&mut self.frames);
        let mut parts = Vec::with_capacity(frames.len());
        let mut memory = std::mem::take(&mut self.memory).into_iter();
        let mut left = None;
        for frame in frames {
            let Some(mut part) = left.take().or_else(|| memory.next()) else { break };
            if let FrameMemory::Extent(extent) = &mut part
                && extent.len() as u64 > frame.held_bytes()
            {
                left = Some(FrameMemory::Extent(extent.split_off(frame.held_bytes())));
            }
            parts.push((frame, part));
        }
        parts
    }

    fn fail(&mut self, error: MediumError) {
        let parts = self.parts();
        let under_way = self.under_way.take();
        if parts.len() > 1 && !error.is_of_whole_file() {
            let mut next_bytes = self.offset_bytes;
            let runs = parts.into_iter().map(|(frame, memory)| {
                let offset_bytes = next_bytes;
                next_bytes += frame.held_bytes();
                let run =
                    Self::at(Arc::clone(&self.medium), self.file.clone(), offset_bytes, vec![frame], vec![memory]);
                run.into_read(under_way.as_ref().map(UnderWay::another))
            });
            self.medium.submit(runs.collect());
            return;
        }
        let error = match error {
            MediumError::Shared(error) => error,
            error => Arc::new(error),
        };
        for (frame, memory) in parts {
            frame.arrived(memory, Arrived::Failed(Arc::clone(&error)));
        }
    }
}

impl PendingRead for ReadRun {
    fn destination(&mut self) -> Destination<'_> {
        let mut left_bytes = self.read_bytes;
        match &mut self.memory[..] {
            [] => Destination::One(&mut []),
            [memory] => Destination::One(memory.get_mut(..left_bytes).unwrap_or_default()),
            several => {
                let parts = several.iter_mut().map(|memory| {
                    // Less than all of it only at the end of the last one.
                    let part_bytes = memory.len().min(left_bytes);
                    left_bytes -= part_bytes;
                    IoSliceMut::new(&mut memory[..part_bytes])
                });
                Destination::Several(parts.collect())
            }
        }
    }

    fn completed(mut self: Box<Self>, outcome: Result<(), MediumError>) {
        match outcome {
            Ok(()) => {
                if let Some(under_way) = self.under_way.take() {
                    under_way.arrived(self.read_bytes as u64);
                }
                self.parts().into_iter().for_each(|(frame, memory)| frame.arrived(memory, Arrived::Filled));
            }
            Err(error) => self.fail(error),
        }
    }
}

impl Drop for ReadRun {
    fn drop(&mut self) {
        for (frame, memory) in self.parts() {
            frame.arrived(memory, Arrived::Dropped);
        }
    }
}
