// Package chat finds what the assistant said in a conversation that was rendered
// with a chat template, as trainers send it to a reward model.
//
// A template is not part of a response: neither its headers nor its special tokens
// must be scored, and spans must index what the assistant said. The functions
// return byte spans into the given text:
//
//	query := "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n"
//	for _, turn := range chat.Turns(query, "") {
//		fmt.Println(query[turn.Start:turn.End]) // Hello.
//	}
//
// The supported templates are those of ChatML (Qwen and many others), Llama 2, 3
// and 4, Mistral, Gemma, Phi, Zephyr, GLM, DeepSeek, Command R, Kimi, gpt-oss and
// NeMo, and plain "User: ... Assistant: ..." text. Text without any of them is a
// response as it is.
package chat
