package spelling

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNormalize(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"You are an іdіоt.", "You are an idiot."}, // Cyrillic і and о
		{"уоu аrе", "you are"},
		{"she said сор", "she said cop"},
		{"ｉｄｉｏｔ 𝐢𝐝𝐢𝐨𝐭 ⓘⓓⓘⓞⓣ 🄸🄳", "idiot idiot idiot ID"},
		{"id\u200biot, i\u00addiot, i\u0336d\u0336iot", "idiot, idiot, idiot"},
		{"you i d i o t!", "you idiot!"},
		{"k.i.l.l yourself, k-i-l-l, k*i*l*l", "kill yourself, kill, kill"},
		{"you 1d10t, go k1ll", "you idiot, go kill"},
		{"l053r", "loser"},
		{"a f.o.o.l, a b-i-t-c-h, I k.i.l.l you", "a fool, a bitch, I kill you"},
		{"idi\u2800ot\u3164you, k\u200b1ll, k\u200eill, k\u200bіll, да\u200bда", "idi ot you, kill, kill, kill, да\u200bда"},
		{"go кill 🅸🅳🅸🅾🆃 ɪᴅɪᴏᴛ", "go kill IDIOT idiot"},
		// These stay as they are.
		{"A plan: b or c, e.g. x.y", "A plan: b or c, e.g. x.y"},
		{"I'm a D. J. in L.A.", "I'm a D. J. in L.A."},
		{"MP3, COVID-19, B2B, H264, 4th, 10am, 3d, 401k, i18n, 0x", "MP3, COVID-19, B2B, H264, 4th, 10am, 3d, 401k, i18n, 0x"},
		{"play F A G, vitamin A D E, A/B/C", "play F A G, vitamin A D E, A/B/C"},
		{"H1N1, H5N1, S01E05, completed in 4be1f07", "H1N1, H5N1, S01E05, completed in 4be1f07"},
		{strings.Repeat("y o u ", 20), strings.Repeat("y o u ", 20)},
		{"Москва и сор", "Москва и сор"},
		{"Москва is a city in Russia", "Москва is a city in Russia"},
		{"café, naïve, Zürich, ½ … \u00a0 ²", "café, naïve, Zürich, ½ … \u00a0 ²"},
		{"👩\u200d💻 नमस्\u200dते", "👩\u200d💻 नमस्\u200dते"},
		{"", ""},
	} {
		if got := Normalize(c.text); got != c.want {
			t.Errorf("%q gives %q, want %q", c.text, got, c.want)
		}
	}
}

// Texts are untrusted. On these, work that grows faster than the text would not end before the test is stopped.
func TestNormalizeTakesLinearTime(t *testing.T) {
	for _, seed := range []string{"0", "a0", "0a", "\u200béа", "\u200b1а", "\u200bка", "a\u200b.é.а", "a", "a ", "a.", "a a-", "\u0430", "a\u0430", "\u200b", "a\u200b", "\u0336", "\U0001d41a", "\xff"} {
		if got := Normalize("a" + strings.Repeat(seed, 4<<20/len(seed))); len(got) > 12<<20 {
			t.Errorf("%q grows to %d bytes", seed, len(got))
		}
	}
}

func FuzzNormalize(f *testing.F) {
	for _, text := range []string{"i d i o t", "іdіоt", "k1ll", "a.b.c.d", "ⓘ d i", "a\u200bb", "\xff", "1d10t"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Normalize(text)
		if again := Normalize(got); again != got {
			t.Errorf("%q gives %q, and that %q", text, got, again)
		}
		if len(got) > 3*len(text) {
			t.Errorf("%q grows to %q", text, got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q gives invalid UTF-8 %q", text, got)
		}
	})
}

func BenchmarkNormalize(b *testing.B) {
	for name, text := range map[string]string{
		"plain":      strings.Repeat("The quick brown fox jumps over a lazy dog, doesn't it? ", 20),
		"accents":    strings.Repeat("Le café est fermé à Zürich, n'est-ce pas? ", 25),
		"obfuscated": strings.Repeat("y o u are an іdіоt and a l053r. ", 30),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Normalize(text)
			}
		})
	}
}
