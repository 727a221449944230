//! A request to the model, whichever protocol it came in.

use serde_json::Value;

/// The protocols that the model speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `POST /v1/messages`.
    Anthropic,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1beta/models/{model}:generateContent`.
    Gemini,
}

/// One entry of a conversation, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Text of the user, or of the program on the user's behalf.
    User(String),
    /// Text of the model.
    Model(String),
    /// The model called a tool.
    Call,
    /// What a tool returned.
    Result(String),
}

/// How a tool takes its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Takes {
    /// A JSON object that fits this schema.
    Json(Value),
    /// Text without a schema, as OpenAI's custom tools do.
    Text,
    /// OpenAI's built-in `local_shell`.
    LocalShell,
    /// A script that calls other tools, as codex takes it; this text tells which ones.
    Script(String),
}

/// A tool that the program declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The group that it was declared in, where the protocol has groups.
    pub namespace: Option<String>,
    /// Its input.
    pub takes: Takes,
}

/// A request to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The protocol it came in, which its answer uses too.
    pub protocol: Protocol,
    /// The model that was asked for.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The conversation so far.
    pub turns: Vec<Turn>,
    /// The declared tools.
    pub tools: Vec<Tool>,
    /// The most tokens that the answer may have.
    pub max_tokens: Option<u64>,
    /// The schema that the answer has to fit, where the program wants JSON.
    pub schema: Option<Value>,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Whether a streamed answer ends with the usage (Chat Completions).
    pub stream_usage: bool,
}

/// An answer of fewer tokens than this cannot be part of a conversation.
const FEW_TOKENS: u64 = 64;

impl Request {
    /// Whether this is a request beside the conversation (a title, a summary, a check of the
    /// quota): it wants JSON, next to nothing, or an answer without tools.
    pub fn is_aside(&self) -> bool {
        let few = self.max_tokens.is_some_and(|max| max < FEW_TOKENS);
        let no_tools = self.tools.is_empty() && self.edit_format().is_none();
        few || self.schema.is_some() || no_tools
    }

    /// The format in which a program without tools wants edits to be written into the text.
    pub fn edit_format(&self) -> Option<EditFormat> {
        if !self.tools.is_empty() {
            return None;
        }
        let prompt = |words: &str| self.system.contains(words);
        if prompt("SEARCH/REPLACE") {
            Some(EditFormat::SearchReplace)
        } else if prompt("*file listing*") {
            Some(EditFormat::Whole)
        } else {
            None
        }
    }

    /// The user's texts, oldest first.
    pub fn user_texts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.turns.iter().filter_map(|turn| match turn {
            Turn::User(text) => Some(text.as_str()),
            Turn::Model(_) | Turn::Call | Turn::Result(_) => None,
        })
    }

    /// What the last tool returned.
    pub fn last_result(&self) -> Option<&str> {
        self.turns.iter().rev().find_map(|turn| match turn {
            Turn::Result(text) => Some(text.as_str()),
            Turn::User(_) | Turn::Model(_) | Turn::Call => None,
        })
    }
}

/// The formats in which aider takes edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditFormat {
    /// Blocks of what to look for and what to put in its place.
    SearchReplace,
    /// The whole file.
    Whole,
}
