//! A request to the model, in any protocol.

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

/// An entry of a conversation; the oldest is first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Text of the user, or of the program on the user's behalf.
    User(String),
    /// Text of the model.
    Model(String),
    /// The model called a tool.
    Call,
    /// The result of a tool.
    Result(String),
}

/// The form in which a tool takes its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Takes {
    /// A JSON object that fits this schema.
    Json(Value),
    /// Text without a schema, as OpenAI's custom tools do.
    Text,
    /// OpenAI's built-in `local_shell`.
    LocalShell,
    /// A script that calls other tools, as codex takes it; the text names them.
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
    /// The protocol of the request, and of its answer.
    pub protocol: Protocol,
    /// The requested model.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The conversation so far.
    pub turns: Vec<Turn>,
    /// The declared tools.
    pub tools: Vec<Tool>,
    /// The maximum number of tokens of the answer.
    pub max_tokens: Option<u64>,
    /// The schema of the answer, where the program wants JSON.
    pub schema: Option<Value>,
    /// Set when the answer is to be streamed.
    pub stream: bool,
    /// Set when a streamed answer ends with the usage (Chat Completions).
    pub stream_usage: bool,
}

/// An answer of fewer tokens than this cannot be part of a conversation.
const FEW_TOKENS: u64 = 64;

impl Request {
    /// Returns true for a request beside the conversation (a title, a summary, a check of the quota): it wants JSON,
    /// very few tokens, or an answer without tools.
    pub fn is_aside(&self) -> bool {
        let few = self.max_tokens.is_some_and(|max| max < FEW_TOKENS);
        let no_tools = self.tools.is_empty() && self.edit_format().is_none();
        few || self.schema.is_some() || no_tools
    }

    /// Returns the format in which a program without tools wants edits in the text.
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

    /// Returns the user's texts, oldest first.
    pub fn user_texts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.turns.iter().filter_map(|turn| match turn {
            Turn::User(text) => Some(text.as_str()),
            Turn::Model(_) | Turn::Call | Turn::Result(_) => None,
        })
    }

    /// Returns the result of the last tool.
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
    /// Blocks of a text to find and its replacement.
    SearchReplace,
    /// The whole file.
    Whole,
}
