package wire

// DecodeBytes returns the maximum memory that decoding a JSON body allocates, in
// bytes: a copy of its texts, and the lists and objects that contain them. It
// counts the characters that start or separate values; TestDecodeBytes validates
// the factor.
func DecodeBytes(body []byte) int64 {
	const each = 32 // a string header with the spare capacity of a growing list, or half of a name in a map
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
