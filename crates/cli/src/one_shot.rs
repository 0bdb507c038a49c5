//! SQL from the command line, files and standard input: run it and exit.

use std::io::{self, Read};

use crate::arguments::Source;
use crate::failure::{Failure, Result};
use crate::statement::Conversation;

/// Runs `sources` in order, up to the first failure.
pub(crate) async fn run(conversation: &mut Conversation, sources: &[Source]) -> Result<()> {
    for source in sources {
        match source {
            Source::Command(text) => conversation.run(text).await?,
            Source::File(path) => {
                let text =
                    std::fs::read_to_string(path).map_err(|error| Failure::File { path: path.clone(), error })?;
                conversation.run(&text).await.map_err(|failure| failure.in_file(&path.display().to_string()))?;
            }
            Source::StandardInput => {
                let text = read_standard_input(conversation).await?;
                conversation.run(&text).await?;
            }
        }
    }
    Ok(())
}

/// All of standard input. On a thread of its own, so that Ctrl-C ends a run that waits for a writer.
async fn read_standard_input(conversation: &mut Conversation) -> Result<String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let outcome = io::stdin().lock().read_to_string(&mut text).map(|_| text);
        // Nobody waits for it after Ctrl-C.
        let _ = sender.send(outcome);
    });
    tokio::select! {
        biased;
        () = conversation.interrupt.next() => Err(Failure::Interrupted),
        outcome = receiver => outcome
            .unwrap_or_else(|_| Err(io::Error::other("its reader ended early")))
            .map_err(|error| Failure::Stream { name: "standard input", error }),
    }
}
