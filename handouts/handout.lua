-- Draw what lmbook.press.editions decided: the attributes box, note and lines of a cell.
-- A cell that is `whole` is not cut by a page.
local function quoted(text)
  return '"' .. text:gsub('\\', '\\\\'):gsub('"', '\\"'):gsub('\n', '\\n') .. '"'
end

local function typst(text)
  return pandoc.RawBlock('typst', text)
end

-- A figure at its own size (150 dpi), or smaller; its words are kept for readers.
local function figure(image)
  local alt = image.attributes.alt or pandoc.utils.stringify(image.caption)
  pandoc.mediabag.write('.', image.src)
  local call = '#drawing(' .. quoted(image.src) .. ', ' .. quoted(alt) .. ')'
  return pandoc.RawInline('typst', call)
end

-- A formula speaks its TeX to whoever cannot see it.
local function formula(tex)
  local spoken = pandoc.RawInline('typst', '#spoken(' .. quoted(tex.text) .. ')[')
  return { spoken, tex, pandoc.RawInline('typst', ']') }
end

local lessons, open = 0, {}

-- A lesson starts a page. Levels follow the nesting: PDF/UA allows no skipped one.
local function heading(block)
  while #open > 0 and open[#open] >= block.level do table.remove(open) end
  table.insert(open, block.level)
  block.level = #open
  if block.level ~= 2 then return block end
  lessons = lessons + 1
  return { typst('#lesson-start(' .. lessons .. ')'), block }
end

-- Columns as wide as they need to be, not as wide as the dashes in the source.
local function plain_columns(block)
  block.colspecs = block.colspecs:map(function() return { 'AlignDefault', nil } end)
  return block
end

-- A question stays with the room for its answer, or with the answer.
local function questions(page)
  local blocks = page.blocks
  for i = 2, #blocks do
    local question, answer = blocks[i - 1].content, blocks[i]
    local box = answer.attributes and answer.attributes.box
    if (box == '記入欄' or box == '解答例') and answer.classes:includes('markdown')
      and question and #question > 0 then
      local last = question:remove()
      question:extend({ typst('#block(sticky: true)['), last, typst(']') })
    end
  end
  return pandoc.Pandoc(blocks, page.meta)
end

local function printed(block)
  return typst('#printed(' .. quoted(block.text) .. ')')
end

-- Code stays with the room below it; a few lines stay with their output.
local function cell(block)
  if not block.classes:includes('cell') then return nil end
  local kept, lines = pandoc.List(), block.attributes.lines
  for _, child in ipairs(block.content) do
    if child.t == 'CodeBlock' and block.classes:includes('code') then
      local stays = lines ~= nil or select(2, child.text:gsub('\n', '')) < 4
      local call = '#code(' .. quoted(child.text) .. ', ' .. tostring(stays) .. ')'
      if child.text ~= '' then kept:insert(typst(call)) end
    else
      kept:insert(child)
    end
  end
  if block.attributes.box then
    local call = '#boxed(' .. quoted(block.attributes.box) .. ', '
    call = call .. quoted(block.attributes.note or '') .. ', ' .. (lines or '0')
    call = call .. ', ' .. (block.attributes.whole or 'false') .. ')['
    kept:insert(1, typst(call))
    kept:insert(typst(']'))
  elseif lines then
    kept:insert(typst('#boxed("記入欄", "", ' .. lines .. ', ' .. tostring(tonumber(lines) <= 15) .. ')[]'))
  end
  return kept
end

-- Outputs stand in Divs of their own inside the cell: their text is drawn first.
local function output(block)
  if not block.classes:includes('output') then return nil end
  return block:walk({ CodeBlock = printed }).content
end

return {
  { Image = figure, Math = formula, Header = heading, Table = plain_columns },
  { Div = output },
  { Pandoc = questions },
  { Div = cell },
  { CodeBlock = printed },
}
