package chat

// template is how one family of models marks turns. A turn extends from its header
// to the next one. Where two headers begin at the same byte, the longer one counts.
type template struct {
	assistant []string // headers of what the model shows to the user
	other     []string // headers of other roles, and of what the model hides
	hidden    []string // those of other that begin what the model hides
	named     bool     // headers of other end before the name of the role
}

// templates have special tokens. The first header in a text identifies its
// template.
var templates = []template{
	{ // ChatML: Qwen, Yi, SmolLM, Phi 4 and many others
		assistant: []string{"<|im_start|>assistant"},
		other:     []string{"<|im_start|>"},
		named:     true,
	},
	{ // Llama 3
		assistant: []string{"<|start_header_id|>assistant<|end_header_id|>"},
		other:     []string{"<|start_header_id|>"},
		named:     true,
	},
	{ // Llama 4
		assistant: []string{"<|header_start|>assistant<|header_end|>"},
		other:     []string{"<|header_start|>"},
		named:     true,
	},
	{ // Llama 2, Mistral
		assistant: []string{"[/INST]"},
		other:     []string{"[INST]", "[SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[TOOL_RESULTS]"},
	},
	{ // Gemma
		assistant: []string{"<start_of_turn>model"},
		other:     []string{"<start_of_turn>"},
		named:     true,
	},
	{ // Phi 3, Zephyr, Tulu, GLM 4
		assistant: []string{"<|assistant|>"},
		other:     []string{"<|user|>", "<|system|>", "<|tool|>", "<|observation|>"},
	},
	{ // DeepSeek
		assistant: []string{"<｜Assistant｜>"},
		other:     []string{"<｜User｜>", "<｜tool▁outputs▁begin｜>"},
	},
	{ // Command R
		assistant: []string{"<|CHATBOT_TOKEN|>"},
		other:     []string{"<|USER_TOKEN|>", "<|SYSTEM_TOKEN|>"},
	},
	{ // Kimi
		assistant: []string{"<|im_assistant|>assistant<|im_middle|>"},
		other:     []string{"<|im_user|>", "<|im_system|>"},
		named:     true,
	},
	{ // gpt-oss: only the final channel is shown to the user
		assistant: []string{"<|channel|>final"},
		other:     []string{"<|start|>", "<|channel|>"},
		hidden:    []string{"<|channel|>"},
		named:     true,
	},
	{ // NeMo
		assistant: []string{"<extra_id_1>Assistant"},
		other:     []string{"<extra_id_0>", "<extra_id_1>", "<extra_id_2>"},
		named:     true,
	},
}

// plainAssistant are headers of the assistant in templates without special tokens,
// at the start of a line or after a space.
var plainAssistant = []string{"Assistant:", "ASSISTANT:", "### Response:", "### Assistant:"}

// plainUser are headers of the user, which precede one of plainAssistant.
var plainUser = []string{"Human:", "User:", "USER:", "### Instruction:", "### Human:", "### User:"}

// specials are special tokens without the form <|...|>.
var specials = []string{
	"<s>", "</s>", "<pad>", "<unk>", "<bos>", "<eos>", "<mask>", "<end_of_turn>",
	"[gMASK]", "<sop>", "<BOS_TOKEN>", "[BOS]", "[EOS]", "[PAD]", "[CLS]", "[SEP]", "[UNK]", "[/SYSTEM_PROMPT]", "<extra_id_1>",
}
