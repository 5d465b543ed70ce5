package wire

// DecodeBytes is what decoding a JSON body allocates at most: a copy of its
// texts, and the lists and objects that hold them. It counts the characters
// that begin or separate values; TestDecodeBytes validates the factor.
func DecodeBytes(body []byte) int64 {
	const each = 32 // a string header with the room that a growing list leaves, or half of a name in a table of names
	values := int64(0)
	quoted := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',' || c == ':' || c == '[' || c == '{':
			values++
		}
	}
	return int64(len(body)) + each*values
}
