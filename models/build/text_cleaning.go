package main

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
)

var (
	emojiSpan = regexp.MustCompile(`<span class='emoji-bytes' data-emoji-bytes='(\[[0-9, ]*\])'></span>`)
	blanks    = regexp.MustCompile(`[ \t\x{a0}]+`)
	retweet   = regexp.MustCompile(`(?i)\bRT @\w+:?`)
	mention   = regexp.MustCompile(`@\w+:?`)
	link      = regexp.MustCompile(`https?://\S*|\bt\.co/\S*`)
	noise     = regexp.MustCompile(`^[\s"!:.,\x{201c}\x{201d}]+|[\s"\x{201c}\x{201d}]+$`)
)

// cleanText repairs artifacts of data collection: HTML entities, emoji as lists of
// bytes, characters with a wrong encoding.
func cleanText(text string) string {
	text = emojiSpan.ReplaceAllStringFunc(text, func(span string) string {
		var numbers []int
		if json.Unmarshal([]byte(emojiSpan.FindStringSubmatch(span)[1]), &numbers) != nil {
			return ""
		}
		emoji := make([]byte, len(numbers))
		for i, n := range numbers {
			emoji[i] = byte(n)
		}
		return string(emoji)
	})
	text = html.UnescapeString(html.UnescapeString(text))
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\ufffd", ""), "")
	return strings.TrimSpace(blanks.ReplaceAllString(text, " "))
}

// cleanTweet also drops the marks of retweets, links, and the names of users
// except every fifth (by length, which is deterministic), which becomes "@user": a
// model should see some, but not learn anything from them.
func cleanTweet(text string) string {
	text = cleanText(text)
	text = retweet.ReplaceAllString(text, "")
	text = link.ReplaceAllString(text, "")
	text = mention.ReplaceAllStringFunc(text, func(name string) string {
		if len(name)%5 == 0 {
			return "@user"
		}
		return ""
	})
	text = blanks.ReplaceAllString(text, " ")
	return noise.ReplaceAllString(strings.TrimSpace(text), "")
}
