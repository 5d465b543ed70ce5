// Package chat finds what the assistant said in a conversation that was written
// out with a chat template, as trainers send it to a reward model.
//
// Nothing of a template is a response: neither its headers nor its special
// tokens must be scored, and spans have to index what the assistant said. The
// functions return byte spans into the text that they are given:
//
//	query := "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n"
//	for _, turn := range chat.Turns(query, "") {
//		fmt.Println(query[turn.Start:turn.End]) // Hello.
//	}
//
// The templates are those of ChatML (Qwen and many others), Llama 2, 3 and 4,
// Mistral, Gemma, Phi, Zephyr, GLM, DeepSeek, Command R, Kimi, gpt-oss and
// NeMo, and plain "User: ... Assistant: ..." text. Text without any is a
// response as it is.
package chat
