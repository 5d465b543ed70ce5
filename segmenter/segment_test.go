package segmenter

import (
	"slices"
	"strings"
	"testing"
)

// Each text has "¦" where an utterance ends; the test removes it first.
var cases = []struct{ name, text string }{
	// Terminators.
	{"plain", "It rained.¦ We stayed in.¦ Did you?¦ Yes!"},
	{"runs", "What?!¦ No!!!¦ Fine."},
	{"headline", "A title without a stop"},
	{"titles", "Mr. Ode met Dr. Fay and Prof. Ito.¦ They spoke."},
	{"titles that are words", "Ask your prof.¦ He did ten reps.¦ You saw prof. Ito.¦ She is trans.¦ He met mrs. May, feat. The Band."},
	{"initials", "J. R. Moon and Ann B. Cole sang.¦ I clapped."},
	{"pronoun I", "So did I.¦ The end came."},
	{"single letter", "Take vitamin C.¦ It helps."},
	{"latin", "Fruit, e.g. Figs, i.e. Fresh ones, vs. Dried."},
	{"etc", "Pens, ink, etc.¦ We sell all."},
	{"companies", "Foo Inc. of Ohio and Bar Ltd. merged.¦ She works at Foo Inc.¦ They pay well."},
	{"countries", "The U.S. Army moved.¦ He left the U.S.¦ They stayed."},
	{"dates", "On Jan. 5 and Sept. 11 it rained."},
	{"clock", "Come at 5 p.m. on Monday.¦ We close at 6 p.m.¦ Bye."},
	{"clock before a day", "Come at 8 a.m. Tuesday or 9 p.m. EST."},
	{"numbers", "See No. 5, Fig. 2 and p. 10.¦ Was it?¦ No.¦ So be it."},
	{"decimals", "It costs $3.50 or 2.5 euro.¦ Cheap."},
	{"versions", "Use v1.22.3 or Node.js 20.1.¦ Then build."},
	{"addresses", "Write to a.b@example.com or see https://example.com/a.b?c=d.e!f.¦ Thanks."},
	{"files", "Open main.go and README.md now.¦ Save."},
	{"ellipsis", "Well... maybe.¦ Hmm...¦ Right."},
	{"spaced ellipsis", "I went . . . home.¦ Bye."},
	{"leading dots", "... and so on.¦ Yes."},
	{"glued", "I tried it.¦The result was bad."},
	{"code names", "Call strings.Builder and os.Exit here."},
	{"name with an exclamation mark", "I use Yahoo! and Google."},

	// Quotes and brackets.
	{"quotes", `He said "no."¦ She left.`},
	{"curly quotes", "“Really?”¦ Yes."},
	{"speech", `"Why?" she asked.¦ "Stop!" Tom said.¦ He ran.`},
	{"speech inside", `He cried "Stop! Thief!" and ran.¦ I left.`},
	{"tags", "<p>One.</p>¦<p>Two. ¦Three<br>¦Four</p> ¦if a <b> c"},
	{"brackets", "(It was late.)¦ We slept (badly).¦ Day came."},
	{"emphasis", "**Is it safe?**¦ Yes.¦ *Very.*¦ Go."},
	{"references", "It grew.[1][2]¦ It fell. [3]¦ Notes.²¦ End."},
	{"inline code", "Run `a. B. c` now.¦ Done."},

	// Chat.
	{"lower case", "i went home.¦ then i slept.¦ u there?¦ ok"},
	{"emoticons", "Great! :)¦ See you ;-)¦ Bye."},
	{"emoji", "Done! 🎉¦ Next step."},
	{"emoji without white space", "Great job!👍🏽¦ You are an idiot.😂😂¦ Bye now.\u200b¦ Really."},
	{"emoji in lowercase", "great job!👍¦ you rock.😂¦ then i slept"},
	{"emoji inside", "It is 5.😂x and e.g.👍 Foo, and Dr.\u200b Smith"},
	{"many emoji", "好。¦" + strings.Repeat("☺", 22) + " 好。¦" + strings.Repeat("😂", 17) + "好"},
	{"chat lines", "hey\n¦whats up\n¦not much"},
	{"turns", "User: hi there.¦ ok?\n¦Assistant: I am well."},
	{"bold turns", "**Ann:** Hello\n¦**Bob:** Hi"},
	{"nicks", "<ann> hello all\n¦<bob> hi"},

	// Layout.
	{"paragraphs", "One thing\n\n¦Another thing"},
	{"windows line ends", "One thing\r\n\r\n¦Another thing\r\n¦Third"},
	{"heading", "# Title. With a stop\n¦Text here.¦ More."},
	{"underlined heading", "Title\n=====\n\n¦Text."},
	{"ruling", "One.\n\n¦---\n\n¦Two."},
	{"list", "Steps:\n¦1. Mix it. ¦Wait.\n¦2) Bake.\n¦- [ ] open task\n  ¦* nested\n¦(a) last"},
	{"wrapped item", "- the item goes on and on until the line is long enough to be wrapped\n  here"},
	{"inline items", "1. Mix it.¦ 2. Bake it."},
	{"table", "| A | B. C |\n|---|:-:|\n¦| 1. X | 2 |\n¦| 3 | 4 |\n\n¦After."},
	{"bare table", "A | B\n--|--\n¦1 | 2\n\n¦After."},
	{"pipe in prose", "Run a | b to count.¦ Done."},
	{"quote", "> One. ¦Two.\n¦\n> > Deep."},
	{"fence", "Look:\n¦```go\nx := 1. Y\n\n# no heading\n- no list\n```\n¦After."},
	{"longer fence", "````\n```\na\n```\n````\n¦b"},
	{"unclosed fence", "Look:\n¦```\nx. Y\n\nz. W"},
	{"fence in a list", "- run\n  ¦```sh\n  ls. A\n  ```\n¦- next"},
	{"indented code", "Like so:\n\n    ¦x = 1;\n    y = f(x);\n\n¦Fine."},
	{"math", "Thus\n¦$$\na. B\n$$\n¦holds."},
	{"hard wrap", "The editor wrapped this line because the next word was much too long\nfor it. ¦The second sentence, as it happens, also ran over the edge\nof the window."},
	{"line breaks kept", "Roses are red\n¦Violets are blue"},
	{"mail", "Dear Ann,\n\n¦I am fine. ¦Best regards, ¦Bo Lee"},
	{"mail header", "Ann Lee ¦03/14/2005 09:26 PM ¦Please call me."},
	{"rulings inside", "See you. ¦======== ¦Sent by me."},
	{"two addresses", "http://a.example/x ¦http://b.example/y"},

	// Scripts.
	{"chinese", "今天很好。¦我们走吧！¦你呢？¦好"},
	{"chinese speech", "“走吧。”他说。¦好的。"},
	{"chinese ascii terminators", "太好了!¦走吧?¦好"},
	{"japanese", "「行く。」と言った。¦3.5です。¦はい"},
	{"arabic", "هل أنت بخير؟ ¦نعم، شكراً. ¦جيد"},
	{"urdu", "یہ ٹھیک ہے۔ ¦اچھا"},
	{"hindi", "यह एक वाक्य है। ¦यह दूसरा है॥ ¦हाँ"},
	{"greek", "Τι κάνεις; ¦Καλά. ¦Εσύ;"},
	{"armenian", "Բարեւ։ ¦Լավ է: ¦Այո"},
	{"amharic", "ሰላም። ¦እንዴት ነህ፧ ¦ደህና"},
	{"khmer", "ជំរាបសួរ។ ¦អរគុណ"},
	{"burmese", "မင်္ဂလာပါ။ ¦ကောင်းပါတယ်"},
	{"tibetan", "བཀྲ་ཤིས། ¦བདེ་ལེགས།"},
	{"russian", "Он ушёл. ¦Почему? ¦Не знаю."},
	{"spanish", "¿Qué tal? ¦¡Bien! ¦Vale."},
	{"german", "Das gilt z.B. für Dr. Braun. ¦Es gilt bzw. Galt."},
	{"french", "Ça va ? ¦« Oui. » ¦Bon."},

	// Invalid and unusual text.
	{"invalid", "Bad \xff\xfe bytes. ¦Still \xe3\x80 fine."},
	{"nul", "ab\x00cd. ¦C"},
}

func TestSegment(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var want []string
			for _, part := range strings.Split(c.text, "¦") {
				want = append(want, strings.TrimSpace(part))
			}
			text := strings.ReplaceAll(c.text, "¦", "")
			spans := segment(text)
			checkCover(t, text, spans)
			var got []string
			for _, s := range spans {
				got = append(got, text[s.Start:s.End])
			}
			if !slices.Equal(got, want) {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
		})
	}
}

func TestSegmentBlank(t *testing.T) {
	for _, text := range []string{"", " ", "\n\n", "\t\r\n\u00a0\u3000"} {
		if spans := segment(text); len(spans) != 0 {
			t.Errorf("%q has spans %v", text, spans)
		}
	}
}
