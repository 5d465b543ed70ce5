package spelling

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDescribeEmoji(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"I'd love to 🔪 them", "I'd love to kitchen knife them"},
		{"I'd love to🔪them", "I'd love to kitchen knife them"},
		{"😂😂😂", "face with tears of joy"},
		{"😂 😂 🔪", "face with tears of joy face with tears of joy kitchen knife"},
		{"like him 👳🏾\u200d♂️.", "like him man wearing turban: medium-dark skin tone ."},
		{"👳🏾\u200d♂ 👩\u200d❤️\u200d👩", "man wearing turban: medium-dark skin tone couple with heart: woman, woman"},
		{"🇨🇳 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "flag: China flag: England"},
		{"☪ ☪️ ♿", "star and crescent star and crescent wheelchair symbol"},
		{"👳\u200d", "person wearing turban"},
		{"🅱️itch w🅾️m🅰️n 🅕", "Bitch wOmAn F"},
		{"b1️⃣tch3️⃣s, pℹ️key, Ⓜ️e, 5⃣", "b1tch3s, pℹkey, Ⓜe, 5"},
		// These stay as they are.
		{"plain", "plain"},
		{"● a → b © ▪ Ⓜ ① 漢字 é ▶️", "● a → b © ▪ Ⓜ ① 漢字 é ▶️"},
		{"", ""},
	} {
		if got := DescribeEmoji(c.text); got != c.want {
			t.Errorf("%q gives %q, want %q", c.text, got, c.want)
		}
	}
}

// A text of nothing but emoji, whose names are many times as long, does not grow without bound.
func TestDescribeEmojiIsBounded(t *testing.T) {
	text := strings.Repeat("👩🏿\u200d❤️\u200d💋\u200d👨🏻🔪", 100_000)
	got := DescribeEmoji(text)
	if len(got) > len(text)+64<<10 || !strings.HasSuffix(got, "🔪") {
		t.Errorf("%d bytes give %d", len(text), len(got))
	}
}

func FuzzDescribeEmoji(f *testing.F) {
	for _, text := range []string{"🔪", "a🔪b", "🇨🇳🇨", "👳🏾\u200d", "🅱️itch", "\xff😂", "1️⃣"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := DescribeEmoji(text)
		if len(got) > len(text)+64<<10 {
			t.Errorf("%q grows to %q", text, got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q gives invalid UTF-8 %q", text, got)
		}
	})
}
