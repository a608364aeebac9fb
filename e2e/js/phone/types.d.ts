// The parts of react-native and @react-native-community/netinfo that examples/react-native uses.
declare module 'react-native' {
  import type { ComponentType, ReactElement, ReactNode } from 'react';

  interface Style {
    alignItems?: 'center';
    backgroundColor?: string;
    borderColor?: string;
    borderRadius?: number;
    borderWidth?: number;
    color?: string;
    flex?: number;
    flexDirection?: 'row' | 'column';
    fontSize?: number;
    gap?: number;
    justifyContent?: 'center';
    marginHorizontal?: number;
    marginVertical?: number;
    padding?: number;
    paddingBottom?: number;
    paddingHorizontal?: number;
    paddingTop?: number;
  }

  interface ViewProps {
    style?: Style;
    children?: ReactNode;
    accessibilityLabel?: string;
    accessibilityHint?: string | undefined;
    accessibilityLiveRegion?: 'none' | 'polite' | 'assertive';
    accessibilityRole?: 'button';
  }

  export const View: ComponentType<ViewProps>;
  export const Text: ComponentType<ViewProps>;
  export const KeyboardAvoidingView: ComponentType<ViewProps & { behavior?: 'height' | 'position' | 'padding' }>;
  export const Pressable: ComponentType<ViewProps & { disabled?: boolean; onPress?: () => void }>;
  export const TextInput: ComponentType<
    ViewProps & {
      placeholder?: string;
      value?: string;
      onChangeText?: (text: string) => void;
      onSubmitEditing?: () => void;
      submitBehavior?: 'submit' | 'newline' | 'blurAndSubmit';
    }
  >;
  export function FlatList<T>(props: {
    data: readonly T[];
    inverted?: boolean;
    keyExtractor?: (item: T) => string;
    renderItem: (info: { item: T }) => ReactElement;
  }): ReactElement;
  export const StyleSheet: { create<T extends Record<string, Style>>(styles: T): T };
  export const AppState: {
    addEventListener(type: 'change', listener: (state: 'active' | 'background' | 'inactive' | 'unknown' | 'extension') => void): { remove(): void };
  };
}

declare module '@react-native-community/netinfo' {
  const NetInfo: { addEventListener(listener: (state: { type: string; isConnected: boolean | null }) => void): () => void };
  export default NetInfo;
}
